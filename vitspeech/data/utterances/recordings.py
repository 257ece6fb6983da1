"""Recordings with transcripts, read into memory or left in files.

Shapes: N samples.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, SILENT_PEAK, read_clip
from vitspeech.data.clips.folder import known_speakers
from vitspeech.data.storage.rows import readable
from vitspeech.data.utterances.batch import SpeechBatch, collate
from vitspeech.errors import InputError


@dataclass(frozen=True)
class Recording:
    """A recording with its transcript.

    Args:
        id: Its name: the path as in the CSV file, or the corpus's own.
        words: The transcript.
        file: The audio file.
        speaker: Who speaks, if known.
        location: The file and line that the transcript is from, for messages.
    """

    id: str
    words: list[str]
    file: Path
    speaker: str | None
    location: str


class RecordedUtterances(Dataset):
    """Recorded utterances of variable length, int16, in memory or in files; indexed by (indices, seed).

    Args:
        utterances: The recordings.
        sounds: The samples of each, int16 (N,).
        units: The label indices of each transcript.
        seconds: The duration of each in seconds, in double precision (utterances,); `None` is that of `sounds`, which
            are then all read.
        replace: Whether another utterance stands for one that cannot be read.
    """

    def __init__(
        self,
        utterances: Sequence[Recording],
        sounds: Sequence[Tensor],
        units: Sequence[list[int]],
        seconds: Tensor | None = None,
        *,
        replace: bool = True,
    ) -> None:
        self.replace = replace
        self.utterances, self.sounds, self.units = utterances, sounds, units
        if seconds is None:
            seconds = torch.tensor([len(sound) / SAMPLE_RATE_HZ for sound in sounds], dtype=torch.float64)
        self.seconds = seconds

    @property
    def speakers(self) -> list[list[str]] | None:
        """For each utterance the speaker of each word; `None` if unknown."""
        names = known_speakers(self.utterances)
        return names and [[name] * len(item.words) for name, item in zip(names, self.utterances, strict=True)]

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[SpeechBatch, int]:
        indices, seed = batch
        sounds, read = readable(indices.tolist(), self.sounds.__getitem__, len(self), replace=self.replace)
        return collate(sounds, [self.units[index] for index in read]), seed


def read_recordings(recordings: Sequence[Recording], split: str) -> list[Tensor]:
    """Read the samples of each recording, int16 (N,); warn once about silent ones."""
    sounds, silent = [], []
    for recording in tqdm(recordings, f"reading {split}", disable=len(recordings) < 500 or None, leave=False):
        try:
            sounds.append(read_clip(recording.file))
        except ValueError as error:
            raise InputError(f"{recording.location}: {error}") from None
        if max(-int(sounds[-1].min()), int(sounds[-1].max())) <= SILENT_PEAK:
            silent.append(f"{recording.location}: {recording.file}")
    if silent:
        count = f"{len(silent):,} of {len(recordings):,} recordings"
        warnings.warn(f"{count} are silent (nothing above -66 dBFS), first {silent[0]}", stacklevel=2)
    return sounds
