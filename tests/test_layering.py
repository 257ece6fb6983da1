"""The layering of the package, read from the source: who imports whom, and what has a docstring.

`LAYERS` lists what lies directly under vitspeech/, from the ground up: a package imports only those before it. No two
modules import each other, neither in a function nor under `TYPE_CHECKING`.
"""

import ast
import inspect
import re
from importlib.util import resolve_name
from pathlib import Path

import pytest
from torch import nn

import vitspeech
import vitspeech.data
from vitspeech.commands import VERBS

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "vitspeech"
FILES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted((PROJECT / "scripts").glob("*.py"))
LAYERS = """lazy_names errors json_text terminal torch_audio files trust command_line provenance samples attention
    encoders frontends metrics decoding data models checkpoint inference plots evaluation spotting tasks training sweep
    receptive export commands __main__""".split()
FOLDER_SIZE = 14  # files that a reader takes in at a glance
FORBIDDEN_NAMES = {"utils", "common", "misc", "helpers", "base"}


def name_of(path):
    """The dotted name of a module: `vitspeech.attention` for attention/__init__.py."""
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in FILES}


def imported(source, package="vitspeech", modules=tuple(MODULES)):
    """The modules of the package that the source imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in modules}
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= names & {*modules} or ({module} if module in modules else set())
    return found


def layer_of(module):
    """What lies directly under vitspeech/: `attention` for vitspeech.attention.masks; "" is the package itself."""
    return module.removeprefix("vitspeech").removeprefix(".").partition(".")[0]


def circles(graph):
    """The strongly connected components of more than one node (Tarjan 1972)."""
    order, lowest, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in graph[node]:
            if other not in order:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == order[node]:
            component = {stack.pop()}
            while node not in component:
                component.add(stack.pop())
            found.append(component)

    for node in graph:
        if node not in order:
            visit(node)
    return [component for component in found if len(component) > 1]


IMPORTS = {module: imported(path.read_text(), module) - {module} for module, path in MODULES.items()}


def test_every_form_of_import_is_recognized():
    for line, module in [
        ("import vitspeech.models.vit", "models.vit"),
        ("from vitspeech.models import ViT", "models"),
        ("from vitspeech.models import vit", "models.vit"),
        ("from ..models import vit", "models.vit"),
        ("def late():\n    from vitspeech.tasks import Classification", "tasks"),
        ("if TYPE_CHECKING:\n    from vitspeech.tasks import Classification", "tasks"),
    ]:
        assert imported(line, "vitspeech.attention") == {f"vitspeech.{module}"}
    assert imported("import torch\nfrom torch import nn") == set()


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"f", "a"}, "f": {"g"}, "g": {"e"}}
    assert sorted(map(sorted, circles(graph))) == [["b", "c"], ["e", "f", "g"]]


def test_layers_import_only_those_below():
    assert {layer_of(module) for module in MODULES} - {""} == {*LAYERS}
    offenders = [
        f"{module}: {other}"
        for module, others in IMPORTS.items()
        for other in others
        if (layer := layer_of(module)) != (lower := layer_of(other))
        and layer
        and (LAYERS.index(lower) > LAYERS.index(layer) if lower else layer not in ("commands", "provenance"))
    ]
    assert offenders == []


def test_no_modules_import_each_other():
    graph = {module: others - {"vitspeech"} for module, others in IMPORTS.items() if module != "vitspeech"}
    assert circles(graph) == []


PUBLIC = {
    vitspeech: """
        AudioFolder Augment CNN Cifar Classification DataModule Decoder DecoderConfig Distillation Encoder
        EncoderConfig HuggingFaceClips HuggingFaceImages HuggingFaceUtterances ImageData ImageFolder InputError
        JointRecognition Keywords LabelStream Labeling LibriSpeech MaskedPrediction MaskedSpeechModel Model
        MultiHeadAttention Prediction Recognition RecurrentDecoder RecurrentEncoder RelativePositions Report
        Rotary Rotary2d Score Search SelfAttentivePooling Seq2Seq SequenceAugment Shapes SpecAugment SpeechCNN
        SpeechClassifier SpeechCommands SpeechEmbedding SpeechFrontend SpeechLabeler SpeechRecognizer
        SpeechTranscriber SpokenVocabulary SpokenWords Spotting SpottingSettings SymbolTasks Task TensorItems
        TextTokens TimmModel TranscribedAudio Transcript TranscriptStream Transcription TwoMarks UtteranceData
        ViT WaveformAugment WaveformData WindowMLP WordClip WordSequences WordSource WordSpotter
        attention_from_convolution attention_weights load predict register_score save stream transcribe
        transcribe_symbols truncated_attention""",
    vitspeech.data: """
        AudioFolder Augment Cifar DataModule HuggingFaceClips HuggingFaceImages HuggingFaceUtterances ImageData
        ImageFolder Keywords LibriSpeech RecordedData SequenceAugment Shapes SpeechBatch SpeechCommands
        SpokenVocabulary SpokenWords SymbolTasks TensorItems TranscribedAudio TwoMarks UtteranceData
        WaveformAugment WaveformData WordClip WordSequences WordSource collate""",
}


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_are_these_and_no_others(package):
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    assert dir(package) == package.__all__ == PUBLIC[package].split()
    with pytest.raises(AttributeError, match=rf"module '{package.__name__}' has no attribute 'Vit'"):
        package.Vit  # noqa: B018


NETWORKS = [kind for name in vitspeech.__all__ if isinstance(kind := getattr(vitspeech, name), type)]
NETWORKS = [kind for kind in NETWORKS if issubclass(kind, nn.Module) and kind.forward is not nn.Module.forward]


@pytest.mark.parametrize("network", [kind for kind in NETWORKS if not issubclass(kind, vitspeech.Task)])
def test_help_of_a_network_and_of_its_forward_says_shapes(network):
    assert re.search(r"Shape:\n.*\(B, .* -> ", inspect.getdoc(network), re.DOTALL)
    assert re.search(r"\(B, .*-> ", inspect.getdoc(network.forward), re.DOTALL)


def test_folders_can_be_taken_in_at_a_glance():
    assert len(FILES) > 20 and len(SCRIPTS) > 5 and len(VERBS) > 5
    counts = {folder: len([*folder.glob("*.py")]) for folder in {path.parent for path in FILES}}
    assert {folder.name: count for folder, count in counts.items() if count > FOLDER_SIZE} == {}


def test_names_of_files_and_folders_say_what_is_inside():
    assert [path for path in FILES if FORBIDDEN_NAMES & {*path.relative_to(PROJECT).with_suffix("").parts}] == []


def test_files_and_their_public_classes_and_functions_have_docstrings():
    offenders = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        public = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
        offenders += [f"{name_of(path)}" for node in [tree] if not ast.get_docstring(node)]
        offenders += [f"{name_of(path)}: {node.name}" for node in public if not ast.get_docstring(node)]
    assert offenders == []
