"""Clips labeled `silence`, which are zeros and noise up to loud noise, and the fixed choice of those labeled `unknown`.

Shapes: B batch, N samples of a clip.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from vitspeech.data.audio.reading import ENDINGS, SAMPLE_RATE_HZ, read_audio
from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.noise import at_level, uniform
from vitspeech.data.labeled_files import files_of
from vitspeech.errors import InputError, check_number

T = TypeVar("T")
UNKNOWN, SILENCE, NOISE = "unknown", "silence", "_background_noise_"
MOST_EXTRA = 100  # clips of `unknown` or `silence` per clip of a word
NOISE_PARTS = {"train": (0.0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1.0)}  # fractions of each noise recording
SILENCE_DBFS = (-60.0, -15.0)  # range of the root mean square of clips labeled `silence`
FAINT_SHARE, FAINT_DBFS = 0.25, (-120.0, -60.0)  # in training; below about -100 dBFS all samples are zero
OFFSET_SHARE, LARGEST_OFFSET = 0.1, 0.3
SELECTION_SEED = 20_261_121  # of the unknown words and the cuts of silence, which are the same in every run


def shares_of(unknown: float, silence: float) -> dict[str, float]:
    """The labels besides the words, each with its number of clips per clip of a word; a share of 0 omits the label."""
    check_number("unknown", unknown, 0, MOST_EXTRA)
    check_number("silence", silence, 0, MOST_EXTRA)
    return {label: share for label, share in {UNKNOWN: unknown, SILENCE: silence}.items() if share}


def different_words(words: Sequence[str]) -> list[str]:
    """Words that can be labels besides `unknown` and `silence`."""
    if not words or len({word.replace("_", " ") for word in words}) < len(words) or {UNKNOWN, SILENCE} & set(words):
        raise InputError(f"words={list(words)}: none given, one given twice, or one is {UNKNOWN} or {SILENCE}")
    return list(words)


def noise_files(folder: Path) -> dict[str, Path]:
    """The recordings of noise in a folder, by name: without its ending, unless two differ by the ending only."""
    files = files_of(folder, ENDINGS)
    stems = Counter(file.stem for file in files)
    return {file.stem if stems[file.stem] == 1 else file.name: file for file in files}


def read_noise(folder: Path, samples: int, splits: bool) -> dict[str, Tensor]:
    """Read the noise recordings of a data set by name: int16, none if it has none.

    Each part of a recording must hold a clip of so many samples: those for validation and test as well if `splits`.
    """
    files = noise_files(folder)
    recordings = {name: read_audio(file) for name, file in files.items()}
    for name, recording in recordings.items():
        if any(len(noise_part(recording, split)) < samples for split in (NOISE_PARTS if splits else ["train"])):
            duration_s = len(recording) / SAMPLE_RATE_HZ
            raise InputError(
                f"{files[name]}: lasts {duration_s:.3g} s; validation and test have a tenth of it each, training the "
                f"rest, and each part must hold a clip of {samples / SAMPLE_RATE_HZ:g} s"
            )
    return recordings


def noise_part(recording: Tensor, split: str) -> Tensor:
    """The split's own part of a noise recording."""
    start, end = NOISE_PARTS[split]
    return recording[round(start * len(recording)) : round(end * len(recording))]


def fixed_choice(files: Sequence[T], count: int) -> list[T]:
    """A random choice of clips for `unknown`, in their order; the same in every run."""
    order = torch.randperm(len(files), generator=torch.Generator().manual_seed(SELECTION_SEED))
    return [files[index] for index in order[:count].sort().values]


def cut_silence(recordings: Mapping[str, Tensor], split: str, count: int, samples: int) -> tuple[Tensor, list[str]]:
    """Cut clips, int16 (count, N), from the split's part of noise recordings, at random levels from -60 to -15 dBFS.

    They are always the same. Each comes with the name of its recording.
    """
    generator = torch.Generator().manual_seed(SELECTION_SEED)
    cuts, names = torch.empty(count, samples), []
    parts = [(name, noise_part(recording, split)) for name, recording in recordings.items()]
    for row in cuts:
        name, noise = parts[int(torch.randint(len(parts), (), generator=generator))]
        names.append(name)
        start = int(torch.randint(len(noise) - samples + 1, (), generator=generator))
        row.copy_(noise[start : start + samples] / 32768)
    low, high = SILENCE_DBFS
    return pcm(at_level(cuts, low + (high - low) * torch.rand(count, 1, generator=generator))), names


def replace_silence(
    inputs: Tensor, silent: Tensor, augment: WaveformAugment, noise: Tensor, sample_rate_hz: int
) -> Tensor:
    """Replace the `silent` clips of a training batch by new noise: int16 (B, N), boolean (B,) -> (B, N).

    `augment` draws it: stretches of recorded `noise`, int16 (A,), or synthesized. The other clips lend their voices to
    babble. The levels are those of `cut_silence`; of some clips they are lower, down to zeros.
    """
    drawn = augment.noise(noise.to(inputs.device), inputs[~silent] / 32768, int(silent.sum()), sample_rate_hz)
    faint = uniform(drawn, 0, 1) < FAINT_SHARE
    dbfs = torch.where(faint, uniform(drawn, *FAINT_DBFS), uniform(drawn, *SILENCE_DBFS))
    return inputs.index_put((silent,), pcm(at_level(drawn, dbfs)))


def shifted(waveforms: Tensor) -> Tensor:
    """Add a constant to some clips (B, N), as microphones without a high-pass filter do.

    Not to silence alone: a constant does not mean that nobody speaks.
    """
    chosen = uniform(waveforms, 0, 1) < OFFSET_SHARE
    return waveforms + chosen * uniform(waveforms, -LARGEST_OFFSET, LARGEST_OFFSET)


def pcm(waveforms: Tensor) -> Tensor:
    """Convert floats within ±1 to int16; what is louder is clipped."""
    return (waveforms * 32768).round().clamp(-32768, 32767).to(torch.int16)
