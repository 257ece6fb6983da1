"""The released models answer as they did when they were released."""

import pytest
import soundfile
import torch
from tiny import ROOT

import vitspeech
from vitspeech.inference.label_stream import LabelStream
from vitspeech.samples import FOLDER

RECORDING = FOLDER / "left-right-go.wav"
LABELS = {
    "cnn-cifar10": {"cat": 0.8499, "bird": 0.0221, "deer": 0.0208},
    "hybrid-cifar10": {"cat": 0.8144, "dog": 0.0221, "horse": 0.0216},
    "vit-cifar10": {"cat": 0.8193, "automobile": 0.0245, "frog": 0.0207},
    "keywords-12": {"go": 0.9887, "unknown": 0.0103, "down": 0.0008},
    "speech-commands": {"go": 0.9074, "unknown": 0.0215, "down": 0.0105},
    "speech-commands-causal": {"go": 0.8716, "unknown": 0.0369, "down": 0.0134},
    "speech-commands-cnn": {"go": 0.8843, "unknown": 0.0355, "zero": 0.0116},
    "speech-commands-truncated": {"go": 0.8936, "unknown": 0.0216, "down": 0.0111},
    "wake-words": {"unknown": 0.9989, "view glass": 0.0006, "silence": 0.0005},
}
TRANSCRIPTS = {
    "librispeech-5h-ctc": ("lafted right ti", -5.347),
    "speech-encoder": ("left right yo", -7.475),
    "spoken-words-attention": ("left right go", -0.1000),
    "spoken-words-ctc": ("left right go", -0.4391),
}
WORDS = {"spoken-words-labels": [("left", 0.438, 1.108), ("right", 1.648, 2.218), ("go", 2.788, 3.338)]}


def test_every_released_model_is_here():
    released = {card.parent.name for card in (ROOT / "checkpoints").glob("*/card.json")}
    assert released == LABELS.keys() | TRANSCRIPTS.keys() | WORDS.keys()


@pytest.mark.parametrize("name", LABELS)
def test_classifiers(name):
    sample = FOLDER / "cat.jpg" if name.endswith("-cifar10") else RECORDING
    ((_, labels),) = vitspeech.predict(vitspeech.load(ROOT / "checkpoints" / name), [sample])
    assert dict(labels) == pytest.approx(LABELS[name], abs=5e-4)


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_models_that_transcribe(name):
    ((_, transcript),) = vitspeech.transcribe(vitspeech.load(ROOT / "checkpoints" / name), [RECORDING])
    text, log_probability = TRANSCRIPTS[name]
    assert transcript.text == text and transcript.log_probability == pytest.approx(log_probability, abs=0.01)


@pytest.mark.parametrize("name", WORDS)
def test_models_that_label_frames(name):
    samples = torch.from_numpy(soundfile.read(RECORDING, dtype="float32")[0])
    words = LabelStream(vitspeech.load(ROOT / "checkpoints" / name)).words(samples.split(1600))
    found = [(word.label, word.start_s, word.end_s) for word in words]
    assert [label for label, *_ in found] == [label for label, *_ in WORDS[name]]
    times = [[time for _, *times in each for time in times] for each in (found, WORDS[name])]
    assert times[0] == pytest.approx(times[1], abs=0.011)  # a frame
