"""Takes of words: which ones are still to be recorded, in which order, and what is wrong with one.

The files make a folder that `AudioFolder` and `Keywords` read: WORD/SPEAKER_nohash_NUMBER.wav.

Shapes: N samples of a take.
"""

import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy
import soundfile

from vitspeech.data.audio.levels import CLIPPED, SILENT, Levels
from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.splits import NO_HASH
from vitspeech.data.utterances.word_clips import FRAME, HOP, word_span
from vitspeech.errors import InputError
from vitspeech.files import replacing

SHORTEST_WORD_S = 0.2  # of a take; shorter sounds are usually clicks
EDGE_S = 0.03  # a word that begins or ends so near the edge of the take is probably cut
LOWEST_SNR_DB = 10.0  # of the loudest 20 ms of a take above its quietest tenth
NAME = re.compile(r"\w[\w .'-]*")  # of words and speakers, which name folders and files


def missing_takes(folder: str | Path, words: Sequence[str], count: int, speaker: str) -> list[tuple[str, Path]]:
    """The takes that a speaker still has to record until there are `count` of each word: word and file.

    In each round every word comes once, in an order shuffled by the speaker's name: the same word said ten times in a
    row sounds like a list. Files that exist are counted and never replaced.
    """
    for name in (*words, speaker):
        if not NAME.fullmatch(name) or NO_HASH in name or name.startswith("_"):
            raise InputError(f"{name!r} cannot name a folder or file: letters, digits, spaces, dots, ' and - only")
    takes: list[tuple[int, float, str, Path]] = []
    for word in words:
        pattern = re.compile(rf"{re.escape(speaker)}{NO_HASH}(\d+)\.wav")
        names = [path.name for path in (Path(folder) / word).glob("*.wav")]
        numbers = [int(found[1]) for found in map(pattern.fullmatch, names) if found]
        for place in range(len(numbers), count):
            number = max(numbers, default=-1) + 1 + place - len(numbers)
            file = Path(folder) / word / f"{speaker}{NO_HASH}{number}.wav"
            takes.append((place, random.Random(f"{speaker} {word} {place}").random(), word, file))
    return [(word, file) for _, _, word, file in sorted(takes)]


def problem_of_take(samples: numpy.ndarray) -> str | None:
    """What is wrong with a take of one word, int16 (N,) at 16 kHz, and what to do; `None` if nothing is."""
    level = Levels().add(samples).problem
    if level == SILENT:
        return "silent: is the microphone muted?"
    if level == CLIPPED:
        return "clipped: speak more softly, or farther from the microphone"
    if signal_to_noise_db(samples) < LOWEST_SNR_DB:
        return "no word stands out from the noise: speak louder, or nearer to the microphone"
    start, end = word_span(samples)
    edge = round(EDGE_S * SAMPLE_RATE_HZ)
    if (start, end) == (0, len(samples)) or end - start < SHORTEST_WORD_S * SAMPLE_RATE_HZ:
        return f"no sound of {1000 * SHORTEST_WORD_S:.0f} ms or more: say the whole word"
    if start < edge:
        return "the word is cut at the start: wait for the prompt"
    if end > len(samples) - edge:
        return "the word is cut at the end: speak sooner"
    return None


def problem_of_noise(samples: numpy.ndarray) -> str | None:
    """What is wrong with a recording of background noise, int16 (N,); `None` if nothing is."""
    levels = Levels().add(samples)
    if levels.peak == 0:
        return "silent: is the microphone muted?"
    return "clipped: make less noise" if levels.problem == CLIPPED else None


def signal_to_noise_db(samples: numpy.ndarray) -> float:
    """The level of the loudest 20 ms above the 10th percentile of all, without hum: int16 (N,) -> decibels."""
    sound = numpy.diff(samples.astype(numpy.float64))
    frames = numpy.lib.stride_tricks.sliding_window_view(sound, FRAME)[::HOP]
    levels = 10 * numpy.log10(numpy.square(frames).mean(1) + 1)
    return float(levels.max() - numpy.percentile(levels, 10))


def save_take(samples: numpy.ndarray, file: Path) -> None:
    """Write a take as a WAV of 16 kHz, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as draft:
        soundfile.write(draft, samples, SAMPLE_RATE_HZ, format="WAV", subtype="PCM_16")
