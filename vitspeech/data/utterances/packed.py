"""Recorded utterances in a pack.

Shapes: N samples.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.storage.packed import Pack, numbers
from vitspeech.data.utterances.batch import SpeechBatch, collate


@dataclass(frozen=True)
class PackedUtterance:
    """What is known of an utterance besides its samples.

    Args:
        id: Its path when it was packed.
        words: The transcript.
    """

    id: str
    words: list[str]


class Described(Sequence):
    """The utterances of a split, made when they are asked for: a million of them need no memory."""

    def __init__(self, names: pyarrow.ChunkedArray, transcripts: pyarrow.ChunkedArray) -> None:
        self.names, self.transcripts = names, transcripts

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> PackedUtterance:
        return PackedUtterance(self.names[index].as_py(), self.transcripts[index].as_py().split())

    def __iter__(self) -> Iterator[PackedUtterance]:
        return (self[index] for index in range(len(self)))


class PackedUtterances(Dataset):
    """The utterances of a split, indexed by (indices, seed).

    Args:
        pack: The pack.
        split: `train`, `validation` or `test`.
        encode: The label indices of a transcript.
    """

    def __init__(self, pack: Pack, split: str, encode: Callable[[Sequence[str]], list[int]]) -> None:
        self.pack, self.split, self.encode, self.shards = pack, split, encode, pack.shards(split)

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name not in ("utterances", "speakers")}

    @cached_property
    def utterances(self) -> Described:
        """For each utterance its id and its words."""
        table = self.pack.table(self.split)
        return Described(table.column("name"), table.column("transcript"))

    @cached_property
    def speakers(self) -> list[list[str]] | None:
        """For each utterance the speaker of each word; `None` if unknown."""
        names = self.pack.speakers(self.split)
        return names and [[name] * len(item.words) for name, item in zip(names, self.utterances, strict=True)]

    @property
    def seconds(self) -> Tensor:
        """The duration of each utterance in seconds, in double precision (utterances,)."""
        samples = self.pack.table(self.split).column("bytes").to_numpy() // 2
        return torch.from_numpy(samples / self.pack.preprocessing["sample_rate_hz"])

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[SpeechBatch, int]:
        indices, seed = batch[0].tolist(), batch[1]
        sounds = [numbers(self.shards.read(index), "int16", (-1,)) for index in indices]
        return collate(sounds, [self.encode(self.utterances[index].words) for index in indices]), seed
