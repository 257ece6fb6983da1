"""Small folders of words and of speech, made of noise, and a spotter of random weights that detects words in them."""

from pathlib import Path

import numpy
import soundfile
import torch

from vitspeech.checkpoint.model import Model
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier

RATE_HZ = 16_000
LABELS = ["go", "stop", "unknown", "silence"]


def spotter() -> Model:
    """A streaming classifier whose random weights give probabilities of all sizes on noise."""
    torch.manual_seed(3)
    tokens = SpeechFrontend(8, mels=11, stride=4)
    network = SpeechClassifier(4, tokens, encoder={"depth": 1, "heads": 2, "left": 3, "right": 1}).eval()
    with torch.no_grad():
        network.head.weight.mul_(6)
    card = {"heard_words": ["cat"]}
    return Model(network, LABELS, {"sample_rate_hz": RATE_HZ, "seconds": 1.0}, card, {})


def burst(seed: int, seconds: float, word_s: float = 0.4) -> numpy.ndarray:
    """Noise with a louder word of filtered noise in the middle: float (N,)."""
    generator = numpy.random.default_rng(seed)
    sound = 0.001 * generator.standard_normal(round(seconds * RATE_HZ))
    count = round(word_s * RATE_HZ)
    first = (len(sound) - count) // 2
    width = int(generator.integers(1, 40))
    word = numpy.convolve(generator.standard_normal(count + width - 1), numpy.ones(width) / width, "valid")
    sound[first : first + count] += 0.1 * word / word.std()
    return sound.clip(-1, 1)


def write(file: Path, sound: numpy.ndarray) -> None:
    """Write a recording, and its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(file, sound, RATE_HZ, subtype="PCM_16")


def write_words(root: Path, words: tuple[str, ...] = ("go", "stop", "cat"), count: int = 6) -> Path:
    """Recordings of a second in `train`, `validation` and `test`, of three speakers each."""
    for split_number, split in enumerate(("train", "validation", "test")):
        for word_number, word in enumerate(words):
            for number in range(count):
                seed = 1000 * split_number + 100 * word_number + number
                name = f"{split}{number % 3}_nohash_{number // 3}.wav"
                write(root / split / word / name, burst(seed, 1.0))
    return root


def write_speech(root: Path, seconds: float = 6.0) -> Path:
    """Three speakers in LibriSpeech's layout, one chapter of three utterances each, with transcripts."""
    texts = ("GO HOME NOW", "IT IS LATE", "THE ONE-STOP SHOP")
    for speaker in range(3):
        lines = []
        for number, text in enumerate(texts):
            name = f"{speaker}-7-{number:04}"
            sound = numpy.concatenate([burst(50 * speaker + 10 * number + part, 1.0) for part in range(round(seconds))])
            write(root / str(speaker) / "7" / f"{name}.wav", sound)
            lines.append(f"{name} {text}\n")
        (root / str(speaker) / "7" / f"{speaker}-7.trans.txt").write_text("".join(lines))
    return root
