"""What running a model imports: neither the libraries of training and figures nor torch's compiler.

What costs time at the start, and what has to be installed, are the modules that are imported; both are read from there.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from tiny import ROOT

from vitspeech.samples import FOLDER

LATER = "lightning torchmetrics torchvision torchaudio timm jsonargparse matplotlib pyarrow onnx onnxruntime tokenizers"
LATER = {*LATER.split(), "datasets", "tensorboard", "rapidfuzz", "sympy", "triton", "torch._dynamo", "torch._inductor"}
NEEDED = ("torch", "numpy", "safetensors", "PyYAML", "soundfile", "pillow")
PICTURE, RECORDING = FOLDER / "cat.jpg", FOLDER / "left-right-go.wav"
IMPORTED = """
import sys, torch
before = {*sys.modules}
%s
print(*{*sys.modules} - before, file=sys.stderr)
"""
RUN_WITHOUT = """
import importlib.abc, json, sys

class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

refused = {*json.loads(sys.argv[1])}
sys.meta_path.insert(0, Without())
%s
"""
RUN_ALL = """
import vitspeech
from pathlib import Path
from vitspeech.data.audio.reading import read_audio

picture, recording = sys.argv[2:]
sound = read_audio(recording)
for folder in sorted(Path("checkpoints").glob("*/card.json")):
    model = vitspeech.load(folder.parent)
    if "image" in model.preprocessing or "seconds" in model.preprocessing:
        ((_, labels),) = vitspeech.predict(model, [picture if "image" in model.preprocessing else recording])
        said = labels[0][0]
    elif model.task == "vitspeech.Labeling":
        said = " ".join(word.label for word in vitspeech.LabelStream(model).words([sound]))
    else:
        ((_, transcript),) = vitspeech.transcribe(model, [recording])
        said = transcript.text
        if model.task == "vitspeech.Recognition":
            assert vitspeech.TranscriptStream(model).transcript([sound]).text == said
    if model.folder.name == "keywords-12":
        stream = vitspeech.stream(model)
        assert len(stream.push(sound))
    print(folder.parent.name, said)
"""


def run(code, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    options = {"cwd": ROOT, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], **options)


def imported(code):
    """What is imported beyond what torch alone imports: names of modules, and of the packages that they are in."""
    result = run(IMPORTED % code)
    assert result.returncode == 0, result.stderr
    return {".".join(name.split(".")[:parts]) for name in result.stderr.split() for parts in (1, 2)}


def command(*words):
    return f"from vitspeech.commands import main; main({[*map(str, words)]})"


@pytest.mark.parametrize(
    "code",
    [
        "import vitspeech; vitspeech.load('checkpoints/keywords-12')",
        command("predict", "checkpoints/vit-cifar10", PICTURE),
        command("stream", "checkpoints/keywords-12", RECORDING),
        command("transcribe", "checkpoints/librispeech-5h-ctc", RECORDING),
    ],
    ids=["load", "predict", "stream", "transcribe"],
)
def test_running_a_model_imports_no_library_of_training(code):
    found = imported(code)
    assert "vitspeech.checkpoint" in found
    assert found & LATER == set()


def test_what_a_library_of_training_does_is_imported_with_it():
    found = imported("import vitspeech; vitspeech.TimmModel(3, 'resnet10t'); vitspeech.Task")
    assert {"timm", "lightning", "torchmetrics"} <= found & LATER


def with_requirements(names):
    """Distributions and all that they require, by normalized name."""
    found, waiting = set(), [*names]
    while waiting:
        name = normalized(waiting.pop())
        if name in found:
            continue
        try:
            needed = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:  # of another platform
            continue
        found.add(name)
        waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def refused():
    """The installed packages that are not required by what models need, as JSON."""
    allowed = {"vitspeech", *with_requirements(NEEDED)}
    owners = {package: {*map(normalized, some)} for package, some in packages_distributions().items()}
    return json.dumps([package for package, some in owners.items() if not some & allowed])


def test_the_released_models_run_with_torch_numpy_safetensors_pyyaml_soundfile_and_pillow_alone(refused):
    assert {"lightning", "torchaudio", "timm", "tqdm", "pyarrow", "tokenizers", "pytest"} <= {*json.loads(refused)}
    result = run(RUN_WITHOUT % RUN_ALL, refused, PICTURE, RECORDING)
    assert result.returncode == 0, result.stderr
    said = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    assert said.keys() == {card.parent.name for card in (ROOT / "checkpoints").glob("*/card.json")}
    assert said["vit-cifar10"] == "cat" and said["keywords-12"] == "go"
    assert said["spoken-words-ctc"] == said["spoken-words-labels"] == "left right go"


def test_a_library_that_a_network_needs_is_named_if_it_is_missing(refused):
    result = run(RUN_WITHOUT % "import vitspeech; vitspeech.TimmModel(3, 'resnet10t')", refused)
    assert result.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'timm'"


def test_the_package_is_imported_from_a_zip_file(tmp_path):
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("__init__.py", "__init__.pyi", "lazy_names.py", "errors.py"):
            file.write(ROOT / "vitspeech" / name, f"vitspeech/{name}")
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); import vitspeech; print(vitspeech.InputError.__module__)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert result.stdout == "vitspeech.errors\n"
