"""Utterances put together from single words: how, and the manifest that says it word for word.

A manifest is a file of JSON lines, one utterance each. All numbers of it are samples at 16 kHz, but for `snr_db`:

    id       the utterance's name          words    its transcript
    samples  its length                    clips    the clip of each word, as its source names it
    cuts     [first, after the last] sample of each word in its clip
    starts   of each word in the utterance: it lasts there as long as its cut
    noise    [recording, first sample], repeated from its beginning where it ends
    snr_db   the words' energy over the noise's

Shapes: B utterances, N samples, U units, W words.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from vitspeech.data.files import sha256
from vitspeech.data.utterances.word_clips import WordClip

FADE = 640  # samples: 40 ms before and after each word, in which it fades in and out, over its neighbors, too
LEVEL = 0.05  # root mean square of every word, of full scale: -26 dB
QUIETEST = 1e-4  # root mean square of noise that counts as silent
SUMS = "SHA256SUMS"
SUM = re.compile(r"^([0-9a-f]{64}) [ *](.+)$", re.MULTILINE)  # `sha256sum --binary` marks its names


@dataclass(frozen=True)
class Utterance:
    """One line of a manifest; see the file's head."""

    id: str
    words: list[str]
    samples: int
    clips: list[str]
    cuts: list[list[int]]
    starts: list[int]
    noise: list
    snr_db: float


class Speech(NamedTuple):
    """A batch of utterances.

    Attributes:
        waveforms: Padded at the end (B, N).
        lengths: Samples of each (B,).
        units: Indices of its labels, -1 behind the last (B, U).
        spans: First sample of each word and the one after its last (B, W, 2), zeros behind the last.
    """

    waveforms: Tensor
    lengths: Tensor
    units: Tensor
    spans: Tensor


def composed(utterance: Utterance, clips: Mapping[str, WordClip], noises: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
    """The sound of an utterance: every word at `LEVEL`, faded at both ends, over noise: int16 (N,)."""
    sound = numpy.zeros(utterance.samples, numpy.float32)
    for name, (first, last), start in zip(utterance.clips, utterance.cuts, utterance.starts, strict=True):
        samples = clips[name].samples
        # The word with as much of its surroundings as fade in and out, where the clip and the utterance have them.
        before = min(FADE, first, start)
        after = min(FADE, len(samples) - last, utterance.samples - start - (last - first))
        cut = samples[first - before : last + after].astype(numpy.float32) / 32768
        word = cut[before : before + last - first]
        cut *= LEVEL / max(float(numpy.sqrt(numpy.mean(word * word))), QUIETEST)
        cut[:before] *= RAMP[FADE - before :]
        cut[len(cut) - after :] *= RAMP[::-1][:after]
        sound[start - before : start + last - first + after] += cut
    recording, place = utterance.noise
    stretch = numpy.take(noises[recording], numpy.arange(place, place + len(sound)), mode="wrap") / numpy.float32(32768)
    loudness = max(float(numpy.sqrt(numpy.mean(stretch * stretch))), QUIETEST)
    sound += stretch * (LEVEL / loudness * 10 ** (-utterance.snr_db / 20))
    return (sound * 32768).round().clip(-32768, 32767).astype(numpy.int16)


RAMP = (0.5 - 0.5 * numpy.cos(numpy.pi * (numpy.arange(FADE) + 0.5) / FADE)).astype(numpy.float32)


def collated(
    sounds: Sequence[numpy.ndarray], units: Sequence[Sequence[int]], utterances: Sequence[Utterance]
) -> Speech:
    """Utterances side by side, padded at their ends; waveforms stay int16."""
    waveforms = numpy.zeros((len(sounds), max(map(len, sounds))), numpy.int16)
    for row, sound in zip(waveforms, sounds, strict=True):
        row[: len(sound)] = sound
    targets = torch.full((len(units), max(map(len, units))), -1)
    spans = torch.zeros(len(sounds), max(len(utterance.starts) for utterance in utterances), 2, dtype=torch.long)
    for row, (numbers, utterance) in enumerate(zip(units, utterances, strict=True)):
        targets[row, : len(numbers)] = torch.tensor(numbers)
        starts, cuts = torch.tensor(utterance.starts), torch.tensor(utterance.cuts)
        spans[row, : len(starts)] = torch.stack((starts, starts + cuts[:, 1] - cuts[:, 0]), dim=1)
    return Speech(torch.from_numpy(waveforms), torch.tensor([len(sound) for sound in sounds]), targets, spans)


def write_manifest(utterances: Sequence[Utterance], file: str | Path) -> str:
    """Write a manifest and its line in the folder's SHA256SUMS; give its sha256."""
    file = Path(file)
    file.write_text("".join(json.dumps(asdict(utterance), separators=(",", ":")) + "\n" for utterance in utterances))
    sums = read_sums(file.parent / SUMS) | {file.name: sha256(file)}
    (file.parent / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))
    return sums[file.name]


def read_manifest(file: str | Path) -> list[Utterance]:
    """The utterances of a manifest.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If its sha256 is not the one in SHA256SUMS beside it, or a line is no utterance.
    """
    file = Path(file)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such manifest")
    expected, found = read_sums(file.parent / SUMS).get(file.name), sha256(file)
    if expected != found:
        stated = f"{SUMS} says {expected}" if expected else f"{SUMS} beside it has no line for it"
        raise ValueError(f"{file}: its sha256 is {found}, but {stated}: not the manifest that results are compared on")
    utterances = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        try:
            utterance = Utterance(**json.loads(line))
            check(utterance)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{file}: line {number} is no utterance: {error}") from None
        utterances.append(utterance)
    if not utterances:
        raise ValueError(f"{file}: no utterances")
    return utterances


def check(utterance: Utterance) -> None:
    """Refuse an utterance whose parts do not fit each other.

    Raises:
        ValueError: If they do not.
    """
    if not utterance.words:
        raise ValueError("its transcript is empty")
    lists = (utterance.words, utterance.clips, utterance.cuts, utterance.starts)
    if len({len(part) for part in lists}) > 1:
        raise ValueError(
            f"words, clips, cuts and starts are {', '.join(str(len(part)) for part in lists)}, not as many"
        )
    for word, (first, last), start in zip(utterance.words, utterance.cuts, utterance.starts, strict=True):
        if not 0 <= first < last or not 0 <= start <= utterance.samples - (last - first):
            raise ValueError(f"{word!r}, cut {first} to {last}, does not fit at {start} of {utterance.samples} samples")
    if [type(part) for part in utterance.noise] != [str, int] or utterance.noise[1] < 0:
        raise ValueError(f"noise={utterance.noise} is no recording with its first sample")
    places = (utterance.samples, *utterance.starts, *(place for cut in utterance.cuts for place in cut))
    if not all(isinstance(place, int) for place in places) or not math.isfinite(utterance.snr_db):
        raise ValueError(f"a number of samples is no integer, or snr_db={utterance.snr_db} is not finite")


def read_sums(file: Path) -> dict[str, str]:
    """The sha256 of each name, as `sha256sum` writes them; nothing where there is no such file."""
    return {name: digest for digest, name in SUM.findall(file.read_text())} if file.exists() else {}
