"""Streams of single words at known times: words of one speaker, one after another, with pauses, over noise."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy
import torch
from torch import Tensor
from torchaudio.functional import resample

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, check_audio, read_audio, read_clip
from vitspeech.data.clips.folder import LabeledFile, word_recordings
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.silence import NOISE, SILENCE, UNKNOWN, noise_files, noise_part
from vitspeech.data.splits import relative_name
from vitspeech.data.utterances.composition import compose
from vitspeech.data.utterances.manifest import Utterance
from vitspeech.data.utterances.word_clips import WordClip, word_span
from vitspeech.errors import InputError
from vitspeech.spotting.streams import KEYWORDS, OTHERS, MakeStreams, Recording, SaidWord, Stream

PAUSE_S = (0.5, 2.0)  # before, between and after the words
SNRS_DB = (math.inf, 20.0, 10.0, 5.0)  # of the keywords; infinite: no noise is added, as for other words
MOST_WORDS = 50  # of a stream


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

    Args:
        root: A folder of one folder per word, see `word_recordings`.
        labels: The words of the model.
        split: `train`, `validation`, `test` or `all`.
        clips: The most clips of the model's words, and of other words; `None` takes all.
        seed: Of the choice of clips, their order, the pauses and the noise.
        with_others: Whether there are streams of other words.
        every_word: Whether all words of the model are needed.

    Raises:
        FileNotFoundError: If there is no such folder.
        InputError: If it has none of the model's words in the split, or not all that are needed, or a clip of the
            streams cannot be read.
    """
    splits = word_recordings(root)
    files = [item for name, items in splits.items() if split in (name, "all") for item in items]
    wanted = [item for item in files if item.label in labels]
    others = [item for item in files if with_others and item.label not in (*labels, UNKNOWN, SILENCE)]
    if not wanted:
        raise InputError(
            f"{root}: no recordings of {', '.join(labels)} in the split {split}; the model's words are these"
        )
    noises = backgrounds(root, split)
    generator = numpy.random.default_rng(seed)
    groups, other_groups = grouped(wanted, clips, generator), grouped(others, clips, generator)
    if every_word:
        said = {item.label for group in groups for item in group}
        there = {item.label for item in wanted}
        refuse_missing(root, split, [label for label in labels if label not in there])
        if left_out := [label for label in labels if label not in said]:
            raise InputError(f"--clips {clips} leaves out {', '.join(left_out)}, which the thresholds need; raise it")
    for group in (*groups, *other_groups):
        for item in group:
            check_audio(item.file)
    keywords = [
        composer(KEYWORDS, group, root, noises, SNRS_DB, [seed, 0, number]) for number, group in enumerate(groups)
    ]
    fillers = [
        composer(OTHERS, group, root, noises, (math.inf,), [seed, 1, number])
        for number, group in enumerate(other_groups)
    ]
    return keywords, fillers


def refuse_missing(root: Path, split: str, missing: Sequence[str]) -> None:
    """Raise an `InputError` if words have no recordings, so that no thresholds can be chosen for them."""
    if missing:
        words = ", ".join(missing)
        raise InputError(
            f"{root} has no recordings of {words} in the split {split}, which the thresholds need; record some"
        )


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

    Every word is cut by its energy (`word_span`), scaled to one level and faded over 40 ms, as in `WordSequences`.
    """

    def streams(rate_hz: int) -> Iterator[Stream]:
        generator = numpy.random.default_rng(seed)
        pauses = (generator.uniform(*PAUSE_S, len(files) + 1) * SAMPLE_RATE_HZ).round().astype(int).tolist()
        noise = sorted(noises)[int(generator.integers(len(noises)))]
        position = int(generator.integers(len(noises[noise])))
        clips, starts, end = [], [], 0
        for pause, item in zip(pauses, files, strict=False):
            samples = read_clip(item.file).numpy()
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
