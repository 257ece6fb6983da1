"""Streams to measure a keyword spotter on: audio, the recordings in it, and the words that are said in it when.

Continuous speech and sounds are recordings as they are. Keywords and other words are composed: words of one speaker at
known times, one after another with pauses, over noise. Streams are made anew each time that they are needed, so that
only one is in memory.

Shapes: N samples.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy
import torch
from torch import Tensor

from vitspeech.data.audio.continuous import Speech, list_speech, speech_split
from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, InputAudio, Notes, check_audio, read_audio, read_clip
from vitspeech.data.clips.folder import word_recordings
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.silence import NOISE, SILENCE, UNKNOWN, noise_files, noise_part
from vitspeech.data.labeled_files import LabeledFile
from vitspeech.data.rows import readable_files
from vitspeech.data.splits import relative_name
from vitspeech.data.utterances.manifest import Utterance
from vitspeech.data.utterances.word_clips import WordClip, compose, word_span
from vitspeech.errors import InputError
from vitspeech.torch_audio import resample

SPEECH, OTHERS, SOUNDS, KEYWORDS = "speech", "others", "sounds", "keywords"  # the conditions
NAMES = {SPEECH: "continuous speech", OTHERS: "other words", SOUNDS: "sounds", KEYWORDS: "keywords"}
LONGEST_S = 3600.0  # of a stream; the next recording begins another one
PAUSE_S = (0.5, 2.0)  # before, between and after the words
SNRS_DB = (math.inf, 20.0, 10.0, 5.0)  # of the keywords; infinite: no noise is added, as for other words
MOST_WORDS = 50  # of a stream


@dataclass(frozen=True)
class Recording:
    """A recording within a stream, with its times in the stream."""

    name: str  # its path relative to the folder
    speaker: str
    start_s: float
    end_s: float
    words: tuple[str, ...] | None  # in lower case; `None` if they are not known


@dataclass(frozen=True)
class SaidWord:
    """A word of a stream that was composed, with its times in the stream."""

    label: str
    speaker: str
    clip: str  # the recording that it was cut from
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


MakeStreams = Callable[[int, Notes], Iterator[Stream]]  # reads or composes streams at a rate; odd recordings are noted


def speech_streams(root: Path, split: str, hours: float | None, seed: int) -> list[MakeStreams]:
    """Continuous speech: the recordings of one speaker in one folder follow each other in the order of their names.

    In LibriSpeech such a folder is a chapter, which was cut into utterances at pauses, so the stream is what was read.
    If `hours` limits what is heard, the chapters are drawn at random.
    """
    recordings = speech_split(list_speech(root), split)
    if not recordings:
        raise InputError(
            f"{root}: no speaker falls into the split {split}; add speakers, or hear "
            "all with --split all, those of training too"
        )
    check_headers(SPEECH, recordings)
    chapters = [list(group) for _, group in groupby(recordings, key=lambda item: (item.file.parent, item.speaker))]
    if hours is not None:
        order = numpy.random.default_rng(seed).permutation(len(chapters)).tolist()
        chapters = limited([chapters[index] for index in order], 3600 * hours)
    return [reader(SPEECH, chapter, root) for chapter in chapters]


def sound_streams(root: Path) -> list[MakeStreams]:
    """Recordings without speech, each a stream of its own."""
    recordings = list_speech(root)
    check_headers(SOUNDS, recordings)
    return [reader(SOUNDS, [item], root) for item in recordings]


def check_headers(condition: str, recordings: Sequence[Speech]) -> None:
    """Refuse recordings that cannot be opened, all of them at once."""
    readable_files([item.file for item in recordings], InputAudio, condition)


def limited(chapters: Sequence[Sequence[Speech]], seconds: float) -> list[list[Speech]]:
    """The first recordings that last `seconds` in all, or a little more."""
    kept, total = [], 0.0
    for chapter in chapters:
        some = []
        for item in chapter:
            if total < seconds:
                some.append(item)
                total += InputAudio(item.file).duration_s
        kept += [some] if some else []
    return kept


def reader(condition: str, items: Sequence[Speech], root: Path) -> MakeStreams:
    """A function that reads recordings as one stream, or as several of up to an hour."""

    def read(rate_hz: int, notes: Notes) -> Iterator[Stream]:
        parts, recordings, samples = [], [], 0
        for item in items:
            parts.append(read_audio(item.file, rate_hz, notes=notes))
            name, start = relative_name(item.file, root), samples
            samples += len(parts[-1])
            recordings.append(Recording(name, item.speaker, start / rate_hz, samples / rate_hz, item.words))
            if samples >= LONGEST_S * rate_hz or item is items[-1]:
                yield Stream(condition, recordings[0].name, None, torch.cat(parts), tuple(recordings))
                parts, recordings, samples = [], [], 0

    return read


def word_streams(
    root: Path,
    labels: Sequence[str],
    split: str,
    clips: int | None,
    seed: int,
    *,
    with_others: bool = True,
    every_word: bool = False,
) -> tuple[list[MakeStreams], list[MakeStreams]]:
    """The streams of the model's words at every noise level, and those of other words.

    The arguments are those of `Plan` and `measure`: at most `clips` of the model's words, and of other words, are drawn
    by the seed. It is an `InputError` if none of the model's words is there, or not every one that is needed.
    """
    splits = word_recordings(root, labels)
    files = [item for name, items in splits.items() if split in (name, "all") for item in items]
    wanted = [item for item in files if item.label in labels]
    others = [item for item in files if with_others and item.label not in (*labels, UNKNOWN, SILENCE)]
    noises = backgrounds(root, split)
    generator = numpy.random.default_rng(seed)
    groups, other_groups = grouped(wanted, clips, generator), grouped(others, clips, generator)
    said = {item.label for group in groups for item in group}
    if not said or (every_word and said < set(labels)):
        missing = ", ".join(label for label in labels if label not in said)
        limit = f" among {clips} clips" if clips else ""
        raise InputError(f"{root} has no recordings of {missing} in the split {split}{limit}; record some")
    files = [item.file for group in (*groups, *other_groups) for item in group]
    readable_files(files, check_audio, "the words")
    keywords = [
        composer(KEYWORDS, group, root, noises, SNRS_DB, [seed, 0, number]) for number, group in enumerate(groups)
    ]
    fillers = [
        composer(OTHERS, group, root, noises, (math.inf,), [seed, 1, number])
        for number, group in enumerate(other_groups)
    ]
    return keywords, fillers


def grouped(
    files: Sequence[LabeledFile], clips: int | None, generator: numpy.random.Generator
) -> list[list[LabeledFile]]:
    """At most `clips` recordings in random order, by speaker, up to `MOST_WORDS` in each group.

    Recordings whose speaker is not known form groups together.
    """
    order = generator.permutation(len(files)).tolist()[:clips]
    by_speaker: dict[str, list[LabeledFile]] = {}
    for item in (files[index] for index in order):
        by_speaker.setdefault(item.speaker or "", []).append(item)
    return [
        items[start : start + MOST_WORDS]
        for _, items in sorted(by_speaker.items())
        for start in range(0, len(items), MOST_WORDS)
    ]


def backgrounds(root: Path, split: str) -> dict[str, numpy.ndarray]:
    """The split's part of each recording in `_background_noise_`, or pink noise if there is none: int16 by name.

    A recording is divided in time as `SpeechCommands` does.
    """
    noises = {}
    for name, file in noise_files(root / NOISE).items():
        recording = read_audio(file)
        noises[name] = (recording if split == "all" else noise_part(recording, split)).numpy()
    return {name: noise for name, noise in noises.items() if len(noise)} or {"pink": pink_noise(16_000).numpy()}


def composer(
    condition: str,
    files: Sequence[LabeledFile],
    root: Path,
    noises: dict[str, numpy.ndarray],
    snrs_db: Sequence[float],
    seed: Sequence[int],
) -> MakeStreams:
    """A function that composes words as one stream for each noise level; the streams differ in the noise's level only.

    Each word is cut by its energy (`word_span`), scaled to one level and faded over 40 ms, as in `WordSequences`.
    """

    def streams(rate_hz: int, notes: Notes) -> Iterator[Stream]:
        generator = numpy.random.default_rng(seed)
        pauses = (generator.uniform(*PAUSE_S, len(files) + 1) * SAMPLE_RATE_HZ).round().astype(int).tolist()
        noise = sorted(noises)[int(generator.integers(len(noises)))]
        position = int(generator.integers(len(noises[noise])))
        clips, starts, end = [], [], 0
        for pause, item in zip(pauses, files, strict=False):
            samples = read_clip(item.file, notes=notes).numpy()
            name = relative_name(item.file, root)
            clips.append(WordClip(name, item.label, item.speaker or name, samples, *word_span(samples)))
            starts.append(end + pause)
            end = starts[-1] + clips[-1].end - clips[-1].start
        total = end + pauses[-1]
        words = tuple(
            SaidWord(
                clip.word,
                clip.speaker,
                clip.name,
                start / SAMPLE_RATE_HZ,
                (start + clip.end - clip.start) / SAMPLE_RATE_HZ,
            )
            for clip, start in zip(clips, starts, strict=True)
        )
        name = f"{condition}-{seed[-1]:04}"
        names, cuts = [clip.name for clip in clips], [[clip.start, clip.end] for clip in clips]
        speaker = files[0].speaker or ""
        recording = Recording(name, speaker, 0.0, total / SAMPLE_RATE_HZ, tuple(clip.word for clip in clips))
        by_name = {clip.name: clip for clip in clips}
        for snr_db in snrs_db:
            plan = Utterance(name, [clip.word for clip in clips], total, names, cuts, starts, [noise, position], snr_db)
            sound = torch.from_numpy(compose(plan, by_name, noises))
            yield Stream(condition, name, snr_db, at_rate(sound, rate_hz), (recording,), words)

    return streams


def at_rate(samples: Tensor, rate_hz: int) -> Tensor:
    """Resample int16 samples from 16 kHz: (N,) -> (N · rate_hz / 16,000,)."""
    if rate_hz == SAMPLE_RATE_HZ:
        return samples
    return resample(samples / 32768, SAMPLE_RATE_HZ, rate_hz).mul(32768).round().clamp(-32768, 32767).to(torch.int16)
