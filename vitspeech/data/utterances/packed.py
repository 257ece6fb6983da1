"""The utterances of a pack: recordings and units that are made when they are needed, and held by nobody."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vitspeech.data.storage.pack import Pack
from vitspeech.data.storage.packed import PackedRows, raw_samples
from vitspeech.data.utterances.recording import Recording
from vitspeech.errors import InputError


def packed_utterances(pack: Pack, split: str, units: str) -> tuple["PackedRecordings", PackedRows, "PackedUnits"]:
    """The recordings of a split, their samples, int16 (N,), and their units.

    Args:
        pack: The pack.
        split: The name of the split.
        units: `words` or `characters`.
    """
    rows = PackedRows(pack, split, raw_samples)
    return PackedRecordings(rows), rows, PackedUnits(rows, units, pack.labels)


class PackedRecordings(Sequence):
    """The recordings of a split."""

    def __init__(self, rows: PackedRows) -> None:
        self.rows, self.folder = rows, rows.folder
        self.transcripts, self.speakers, self.names = map(rows.column, ("transcript", "speaker", "name"))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        name = self.names[index]
        return Recording(name, self.transcripts[index].split(), Path(name), self.speakers[index], str(self.folder))


class PackedUnits(Sequence):
    """The transcript of each recording of a split as indices of labels.

    Args:
        rows: The split.
        units: `words` or `characters`.
        labels: The vocabulary.
    """

    def __init__(self, rows: PackedRows, units: str, labels: Sequence[str]) -> None:
        self.transcripts, self.units = rows.column("transcript"), units
        self.label_indices = {label: index for index, label in enumerate(labels)}

    def __len__(self) -> int:
        return len(self.transcripts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        transcript = self.transcripts[index]
        try:
            return [self.label_indices[unit] for unit in (transcript.split() if self.units == "words" else transcript)]
        except KeyError as error:
            raise InputError(f"{self.transcripts.rows.folder}: {error.args[0]!r} is no label of the pack") from None
