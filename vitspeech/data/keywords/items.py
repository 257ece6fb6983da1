"""Training clips of keywords and of everything else, some of which are made anew for every batch.

A network that has only heard whole words recognizes them by parts: "ha" is "happy", and "bed" plus "cat" is one of
both. So halves of two keywords joined, a keyword cut in half, and cuts of continuous speech are `unknown`.

Shapes: B batch, N samples of a clip, F clips that are kept, A samples of speech.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy
import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, max_pool1d
from tqdm import tqdm

from vitspeech.data.audio.continuous import Speech, list_speech, read_without, speech_split
from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.batches import TensorItems
from vitspeech.data.rows import UNREADABLE, report_broken
from vitspeech.errors import InputError

FADE = 160  # samples, 10 ms at 16 kHz, at each cut
HARDEST, NEAR = 1000, 3200  # places of speech that are mined, and samples that a cut may be off
PIECE = 60 * SAMPLE_RATE_HZ  # of speech that a network hears at once


def join_halves(first: numpy.ndarray, second: numpy.ndarray) -> numpy.ndarray:
    """The first half of one word followed by the second half of another: int16 (N,), (N,) -> (N,)."""
    joined, middle = numpy.zeros_like(first), len(first) // 2
    beginning, ending = faded(first[: center(first)], end=True), faded(second[center(second) :], start=True)
    beginning, ending = beginning[-middle:], ending[: len(joined) - middle]
    joined[middle - len(beginning) : middle] = beginning
    joined[middle : middle + len(ending)] = ending
    return joined


def half(clip: numpy.ndarray, keep_first: bool) -> numpy.ndarray:
    """One half of a word at the edge of the clip, as in a window that the word enters or leaves: int16 (N,) -> (N,)."""
    part = clip[: center(clip)] if keep_first else clip[center(clip) :]
    missing = len(clip) - len(part)
    return numpy.pad(part, (missing, 0) if keep_first else (0, missing))


def center(clip: numpy.ndarray) -> int:
    """The sample before and after which a clip has equal energy: the middle of the word."""
    energy = numpy.square(clip, dtype=numpy.int64).cumsum()
    return int(numpy.searchsorted(energy, energy[-1] / 2)) if energy[-1] else len(clip) // 2


def faded(part: numpy.ndarray, *, start: bool = False, end: bool = False) -> numpy.ndarray:
    """Fade a part of a clip in at its start or out at its end, where it was cut."""
    part, length = part.astype(numpy.float32), min(FADE, len(part))
    ramp = numpy.linspace(0, 1, length, dtype=numpy.float32)
    if start:
        part[:length] *= ramp
    if end and length:
        part[-length:] *= ramp[::-1]
    return part.round().astype(numpy.int16)


ALTERED, SPEECH, SILENT = "altered", "speech", "silence"  # the kinds of clips that are made


class KeywordItems(TensorItems):
    """Clips in memory, followed by clips that are made for each batch from its seed.

    - `altered`: halves of two keywords joined, a keyword reversed, or half a keyword; labeled `unknown`.
    - `speech`: a cut of continuous speech; labeled `unknown`.
    - `silence`: zeros, which `WaveformData.augment_batch` replaces by noise.

    `made` is the number of clips of each kind that an epoch has besides, and `words` that of keywords: the labels below
    it are keywords, this one is `unknown`, the next one `silence`. Speech is int16 (A,), of at least N samples.
    """

    def __init__(
        self,
        inputs: Tensor,
        labels: Tensor,
        speakers: Sequence[str],
        *,
        made: Mapping[str, int],
        words: int,
        speech: Tensor,
        mined: float = 0.0,
    ) -> None:
        super().__init__(inputs, labels, speakers)
        self.words, self.speech, self.mined = words, speech, mined
        self.hard = torch.empty(0, dtype=torch.long)  # the first samples of the hardest cuts of speech
        self.kinds = [kind for kind, count in made.items() for _ in range(count)]
        self.keywords = (labels < words).nonzero()[:, 0]
        made_labels = [words + 1 if kind == SILENT else words for kind in self.kinds]
        self.labels = torch.cat((labels, torch.tensor(made_labels, dtype=labels.dtype)))

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Tensor, Tensor, int]:
        indices, seed = batch
        kept = indices < len(self.inputs)
        clips = self.inputs.new_zeros(len(indices), self.inputs.shape[1])
        clips[kept] = self.inputs[indices[kept]]
        generator = numpy.random.default_rng(seed)
        for row in (~kept).nonzero()[:, 0].tolist():
            kind = self.kinds[int(indices[row]) - len(self.inputs)]
            if kind == ALTERED:
                clips[row] = torch.from_numpy(self.alter(generator))
            elif kind == SPEECH:
                start = self.start_of_cut(generator, clips.shape[1])
                clips[row] = self.speech[start : start + clips.shape[1]]
        return clips, self.labels[indices], seed

    def start_of_cut(self, generator: numpy.random.Generator, samples: int) -> int:
        """Where a cut of the speech begins: anywhere, or for the share `mined` near one of the hardest places."""
        last = len(self.speech) - samples
        if len(self.hard) and generator.random() < self.mined:
            start = int(self.hard[generator.integers(len(self.hard))]) + int(generator.integers(-NEAR, NEAR + 1))
            return min(max(start, 0), last)
        return int(generator.integers(last + 1))

    @torch.no_grad()
    def mine(self, network: Callable[[Tensor], Tensor]) -> None:
        """Find the `HARDEST` places of the speech at which a network finds a keyword most likely.

        `network` maps waveforms within ±1 to the logits of tokens, (B, N) -> (B, T, C). A place is a cut in whose
        middle the greatest log odds of a keyword are, smoothed over three tokens; each half second has at most one.
        """
        samples, found = self.inputs.shape[1], []
        for first in tqdm(range(0, len(self.speech), PIECE), "hard negatives", disable=None, leave=False):
            piece = self.speech[first : first + PIECE]
            if len(piece) < samples:
                break
            logits = network(piece[None] / 32768)[0].float()
            odds = logits[:, : self.words].logsumexp(1) - logits[:, self.words :].logsumexp(1)
            odds = avg_pool1d(odds[None], 3, 1, 1, count_include_pad=False)[0]
            hop = len(piece) / len(odds)
            best, places = max_pool1d(odds[None], max(round(8000 / hop), 1), return_indices=True)
            found.append(torch.stack((best[0], first + (places[0] * hop).float() - samples // 2)))
        odds, starts = torch.cat(found, 1)
        self.hard = starts[odds.argsort(descending=True)[:HARDEST]].long().clamp(0, len(self.speech) - samples)

    def alter(self, generator: numpy.random.Generator) -> numpy.ndarray:
        """Make a clip of keywords that is no keyword: int16 (N,)."""
        first, second = self.keywords[generator.integers(len(self.keywords), size=2)].tolist()
        way, clip = generator.integers(4), self.inputs[first].numpy()
        if way == 0:
            return clip[::-1].copy()
        if way == 1:
            return half(clip, keep_first=bool(generator.integers(2)))
        # Two halves of one word are that word.
        is_other = self.labels[first] != self.labels[second]
        return join_halves(clip, self.inputs[second].numpy()) if is_other else clip[::-1].copy()


def training_speech(folder: Path) -> list[Speech]:
    """The recordings of a folder of speech whose speakers are for training."""
    recordings = list_speech(folder)
    if chosen := speech_split(recordings, "train"):
        return chosen
    count = len({item.speaker for item in recordings})
    raise InputError(
        f"{folder}: none of its speakers ({count}) falls into training (half of the speakers do); add speakers, or"
        " name each file by its speaker, SPEAKER_nohash_NUMBER.wav"
    )


def read_speech(
    folder: Path,
    recordings: Sequence[Speech],
    words: Sequence[str],
    *,
    least: int,
    most: int | None = None,
    broken: float = 0.0,
) -> Tensor:
    """Read the stretches of recordings in which no keyword is said, one after another: int16 (A,).

    There must be `least` samples; what follows after `most` is not read. The share `broken` of the recordings may be
    broken. `folder` is for the message.
    """
    parts, total, problems = [torch.empty(0, dtype=torch.int16)], 0, []
    for item in tqdm(recordings, "reading speech", disable=len(recordings) < 100 or None, leave=False):
        if most is not None and total >= most:
            break
        try:
            parts.append(read_without(item, words))
            total += len(parts[-1])
        except UNREADABLE as error:
            problems.append(str(error))
    report_broken(problems, len(recordings), "speech", broken)
    if total < least:
        raise InputError(f"{folder}: less than {least / SAMPLE_RATE_HZ:g} s of training speech without keywords")
    return torch.cat(parts)[:most]
