"""`vitspeech samples`, and that the released models recognize the samples."""

import pytest
from tiny import ROOT

from vitspeech.samples import FILES, FOLDER


def test_the_samples_are_copied_and_two_commands_are_shown(command, tmp_path):
    lines = command("samples", tmp_path / "new").stdout.splitlines()
    assert lines[: len(FILES)] == [str(tmp_path / "new" / name) for name in FILES]
    for name in FILES:
        assert (tmp_path / "new" / name).read_bytes() == (FOLDER / name).read_bytes()
    assert [line.split()[1] for line in lines[-2:]] == ["stream", "predict"]


def test_every_sample_has_its_license():
    text = (FOLDER / "LICENSES.md").read_text()
    samples = {path.name for path in FOLDER.iterdir() if path.suffix in (".wav", ".jpg")}
    assert samples == set(FILES) - {"LICENSES.md"} and all(f"## {name}\n" in text for name in samples)


@pytest.mark.parametrize("name", ["vit-cifar10", "cnn-cifar10"])
def test_released_models_classify_the_sample_images(command, name):
    result = command("predict", ROOT / "checkpoints" / name, FOLDER / "cat.jpg", FOLDER / "horse.jpg", "--top", 1)
    labels = [line.rpartition(": ")[2].split()[0] for line in result.stdout.splitlines()]
    assert labels == ["cat", "horse"]


def test_a_released_model_spots_the_words_of_the_sample_recording(command):
    result = command("stream", ROOT / "checkpoints/speech-commands-truncated", FOLDER / "left-right-go.wav")
    assert [line.split()[-2] for line in result.stdout.splitlines()[1:-1]] == ["left", "right", "go"]


@pytest.mark.parametrize("name", ["spoken-words-ctc", "spoken-words-attention"])
def test_released_models_transcribe_the_sample_recording(command, name):
    result = command("transcribe", ROOT / "checkpoints" / name, FOLDER / "left-right-go.wav")
    assert result.stdout.endswith(": left right go\n")
