"""A run on LibriSpeech's folders, of pieces: what its card says, and tests on other subsets."""

from pathlib import Path

import numpy
import pytest
import soundfile
import yaml

import vitspeech
from vitspeech.training.train import TrainingCLI

SAID = "THE QUICK BROWN FOX JUMPS OVER A LAZY DOG"


def write(root: Path, subset: str, speakers: range) -> None:
    """Two recordings of noise of each speaker, of 1.5 s."""
    noise = numpy.random.default_rng(speakers.start)
    for speaker in speakers:
        chapter = root / "LibriSpeech" / subset / str(speaker) / "7"
        chapter.mkdir(parents=True)
        for number in range(2):
            sound = noise.integers(-3000, 3000, 24_000).astype(numpy.int16)
            soundfile.write(chapter / f"{speaker}-7-{number:04}.flac", sound, 16_000)
        lines = (f"{speaker}-7-{number:04} {SAID}" for number in range(2))
        (chapter / f"{speaker}-7.trans.txt").write_text("\n".join(lines))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("corpus")
    write(root, "mini", range(10, 16))
    network = {
        "tokens": {"class_path": "vitspeech.SpeechFrontend", "init_args": {"width": 16, "mels": 20, "stride": 2}},
        "encoder": {"depth": 2, "heads": 2, "left": 4, "right": 1, "convolution": 3},
    }
    data = {"root": str(root), "train": ["mini"], "units": "pieces", "vocab_size": 32, "batch_s": 6}
    data |= {"validation_speakers": [10], "test_speakers": [11], "augment": {"noise_prob": 0.0, "join_prob": 0.5}}
    settings = {
        "data": {"class_path": "vitspeech.LibriSpeech", "init_args": data},
        "model": {
            "class_path": "vitspeech.Recognition",
            "init_args": {
                "network": {"class_path": "vitspeech.SpeechRecognizer", "init_args": network},
                "intermediate_ctc": 0.3,
            },
        },
        "trainer": {"max_epochs": 1, "enable_progress_bar": False, "accelerator": "cpu"},
    }
    folder = tmp_path_factory.mktemp("runs")
    (folder / "mini.yaml").write_text(yaml.safe_dump(settings))
    TrainingCLI([f"--config={folder / 'mini.yaml'}", f"--run={folder / 'run'}"]).train()
    return folder / "run"


def test_the_card_states_the_speakers_and_the_model_has_its_pieces(run):
    model = vitspeech.load(run)
    arguments = model.card["data"]["init_args"]
    assert arguments["test_speakers"] == [11] and arguments["validation_speakers"] == [10]
    assert "root" not in arguments and model.card["metrics"]["speakers"] == 1
    assert len(model.labels) == 32 and model.preprocessing["units"] == "pieces" and model.preprocessing["merges"]


def test_another_subset_is_tested_without_the_training_recordings(run, tmp_path, command):
    write(tmp_path, "test-clean", range(30, 33))
    result = command("evaluate", run, "--data", tmp_path, "--test", "test-clean", "--out", tmp_path / "rows.csv")
    assert "6 utterances" in result.stdout and result.stdout.splitlines()[-1].startswith("character_error_rate ")
    rows = (tmp_path / "rows.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == [
        f"{speaker}-7-000{n}" for speaker in (30, 31, 32) for n in (0, 1)
    ]
    missing = command("evaluate", run, "--data", tmp_path, "--test", "test-other")
    assert "test-other: this subset of LibriSpeech is missing (found: test-clean)" in missing.stderr
