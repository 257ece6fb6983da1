"""Streams to measure a keyword spotter on: audio, the recordings in it, and the words that are said in it when.

Shapes: N samples.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy
import torch
from soundfile import LibsndfileError
from torch import Tensor

from vitspeech.data.audio.continuous import Speech, list_speech, speech_split
from vitspeech.data.audio.reading import check_header, open_audio, read_audio, unread
from vitspeech.data.files import check_regular
from vitspeech.data.splits import relative_name
from vitspeech.errors import InputError

SPEECH, OTHERS, SOUNDS, KEYWORDS = "speech", "others", "sounds", "keywords"  # the conditions
LONGEST_S = 3600.0  # of a stream; the next recording begins another one


@dataclass(frozen=True)
class Recording:
    """A recording within a stream.

    Args:
        name: Its path relative to the folder.
        speaker: Who speaks.
        start_s: When it starts in the stream, in seconds.
        end_s: When it ends.
        words: What is said, in lower case; `None` if that is not known.
    """

    name: str
    speaker: str
    start_s: float
    end_s: float
    words: tuple[str, ...] | None


@dataclass(frozen=True)
class SaidWord:
    """A word of a stream that was composed.

    Args:
        label: The word.
        speaker: Who says it.
        clip: The recording that it was cut from.
        start_s: When it starts in the stream, in seconds.
        end_s: When it ends.
    """

    label: str
    speaker: str
    clip: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Stream:
    """Audio that is heard without a break, and what is known about it.

    Args:
        condition: `speech`, `others`, `sounds` or `keywords`.
        name: Its name, unique within the condition and noise level.
        snr_db: Signal-to-noise ratio of a composed stream; infinite without noise; `None` for recordings.
        samples: int16 (N,).
        recordings: The recordings in it, in order.
        words: The words in it, in order; none for recordings.
    """

    condition: str
    name: str
    snr_db: float | None
    samples: Tensor
    recordings: tuple[Recording, ...]
    words: tuple[SaidWord, ...] = ()


MakeStreams = Callable[[int], Iterator[Stream]]  # reads or composes streams at a sample rate


def speech_streams(root: Path, split: str, hours: float | None, seed: int) -> list[MakeStreams]:
    """Continuous speech: the recordings of one speaker in one folder follow each other in the order of their names.

    In LibriSpeech such a folder is a chapter, which was cut into utterances at pauses, so the stream is what was read.

    Args:
        root: The folder, see `list_speech`.
        split: `train`, `validation`, `test` (by speaker) or `all`.
        hours: The most that are heard; `None` hears everything. Chapters are then drawn at random.
        seed: Of that draw.

    Raises:
        FileNotFoundError: If there is no such folder.
        InputError: If it has no recordings in the split, or one that cannot be read.
    """
    recordings = speech_split(list_speech(root), split)
    if not recordings:
        raise InputError(
            f"{root}: no speaker falls into the split {split}; add speakers, or hear "
            "all with --split all, those of training too"
        )
    chapters = [list(group) for _, group in groupby(recordings, key=lambda item: (item.file.parent, item.speaker))]
    if hours is not None:
        order = numpy.random.default_rng(seed).permutation(len(chapters)).tolist()
        chapters = limited([chapters[index] for index in order], 3600 * hours)
    for chapter in chapters:
        for item in chapter:
            duration_s(item.file)
    return [reader(SPEECH, chapter, root) for chapter in chapters]


def sound_streams(root: Path) -> list[MakeStreams]:
    """Recordings without speech, each a stream of its own.

    Raises:
        FileNotFoundError: If there is no such folder.
        InputError: If it has no recordings, or one that cannot be read.
    """
    recordings = list_speech(root)
    for item in recordings:
        duration_s(item.file)
    return [reader(SOUNDS, [item], root) for item in recordings]


def limited(chapters: Sequence[Sequence[Speech]], seconds: float) -> list[list[Speech]]:
    """The first recordings that last `seconds` in all, or a little more."""
    kept, total = [], 0.0
    for chapter in chapters:
        some = []
        for item in chapter:
            if total < seconds:
                some.append(item)
                total += duration_s(item.file)
        kept += [some] if some else []
    return kept


def duration_s(file: Path) -> float:
    """How long a recording lasts, by its header.

    Raises:
        InputError: If it cannot be read, as far as the header tells.
    """
    check_regular(file)
    try:
        with open_audio(file) as recording:
            check_header(file, recording, None)
            return recording.frames / recording.samplerate
    except LibsndfileError as error:
        raise unread(file, error) from None


def reader(condition: str, items: Sequence[Speech], root: Path) -> MakeStreams:
    """A function that reads recordings as one stream, or as several of up to an hour."""

    def read(rate_hz: int) -> Iterator[Stream]:
        parts, recordings, samples = [], [], 0
        for item in items:
            parts.append(read_audio(item.file, rate_hz))
            name, start = relative_name(item.file, root), samples
            samples += len(parts[-1])
            recordings.append(Recording(name, item.speaker, start / rate_hz, samples / rate_hz, item.words))
            if samples >= LONGEST_S * rate_hz or item is items[-1]:
                yield Stream(condition, recordings[0].name, None, torch.cat(parts), tuple(recordings))
                parts, recordings, samples = [], [], 0

    return read
