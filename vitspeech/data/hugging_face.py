"""What the data sets of Hugging Face share: columns, splits and labels, and rows of Arrow files.

The files are mapped into memory: a row is read without those before it, and processes share the pages.

Shapes: B batch.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor

from vitspeech.data.batches import Batches
from vitspeech.data.hub import imported, load
from vitspeech.data.labeled_files import SPLIT_NAMES, LabeledFile, hold_out
from vitspeech.data.module import FILES, MEMORY, STREAM, TEST, DataModule
from vitspeech.data.rows import Content, FileRows, readable, readable_files
from vitspeech.data.stream import AT_ONCE, StreamBatches, StreamedItems
from vitspeech.errors import InputError, check_number

if TYPE_CHECKING:
    import datasets
    import pyarrow

IN_MEMORY_BYTES = 4 * 2**30
SPEAKER_COLUMNS = ("speaker", "speaker_id")
FILE_COLUMN = "file"
OF_FILES = ("imagefolder", "audiofolder")  # builders whose rows may lie in files beside the tables


class Rows:
    """The rows of a split, or some of them, by their place: all that a process holds are these 8 bytes for each.

    Args:
        dataset: The rows in Arrow's memory.
        name: What messages call the split.
        places: The rows of `dataset`; `None` is all of them.
    """

    def __init__(self, dataset: "datasets.Dataset", name: str, places: numpy.ndarray | None = None) -> None:
        self.dataset, self.name, self.places = dataset.with_format("arrow"), name, places

    def __len__(self) -> int:
        return len(self.dataset if self.places is None else self.places)

    def chosen(self, which: Sequence[int] | numpy.ndarray) -> "Rows":
        """Some of the rows."""
        which = numpy.asarray(which, numpy.int64)
        return Rows(self.dataset, self.name, which if self.places is None else self.places[which])

    def column(self, name: str, field: str | None = None) -> "pyarrow.ChunkedArray":
        """The values of a column or of a field of it, as they lie in memory unless only some rows are chosen."""
        import pyarrow.compute

        column = self.dataset.data.column(name)
        column = column if field is None else pyarrow.compute.struct_field(column, field)
        return column if self.places is None else column.take(self.places)

    def files(self, column: str) -> "Files":
        """The files in a column of images or recordings."""
        return Files(self, column)


class Files(Sequence):
    """The files in a column of images or recordings: their bytes, or where they lie."""

    def __init__(self, rows: Rows, column: str) -> None:
        self.rows, self.column, self.dataset = rows, column, rows.dataset.select_columns([column])
        self.has_paths = rows.dataset.info.builder_name in OF_FILES

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.some(range(len(self))[index])
        return self.some([index])[0]

    def some(self, indices: Sequence[int]) -> list[Content | Path]:
        """The files of so many rows, which are read from Arrow's memory at once."""
        places = numpy.asarray(indices, numpy.int64)
        places = places if self.rows.places is None else self.rows.places[places]
        chunks = self.dataset[places].column(0).chunks
        values = ((chunk, row) for chunk in chunks for row in range(len(chunk)))
        return [self.file(*value, int(place)) for value, place in zip(values, places, strict=True)]

    def file(self, chunk: "pyarrow.StructArray", row: int, place: int) -> Content | Path:
        """One of the files; one of no bytes where the row has none."""
        import pyarrow

        path = chunk.field("path")[row].as_py()
        content = chunk.field("bytes")[row]
        if path is not None and not content.is_valid and self.has_paths:  # a path of a table could lead anywhere
            return Path(path)
        unembedded = ", without its bytes" * bool(path and not content.is_valid)  # as `Dataset.to_parquet` writes it
        name = f"{self.rows.name}: row {place}{unembedded}" + f", {path}" * bool(path)
        return Content(content.as_buffer() or pyarrow.py_buffer(b""), name)


class MappedRows(FileRows):
    """Inputs of one shape, decoded from Arrow's memory when they are needed; see `FileRows`."""

    def take(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        places = indices.tolist()
        found = dict(zip(places, self.files.some(places), strict=True))  # one look-up for the batch
        rows, read = readable(
            places, lambda index: self.read(found.get(index) or self.files[index]), len(self), replace=self.replace
        )
        return torch.stack(rows), torch.tensor(read)


class HuggingFaceData(DataModule):
    """The base class of `HuggingFaceImages`, `HuggingFaceClips` and `HuggingFaceUtterances`.

    A split that the set does not have is held out from training, by speaker if they are known (`hold_out`).

    Args:
        path: A name on the hub (`uoft-cs/cifar10`), a folder that `save_to_disk` or `vitspeech pack` wrote, a folder of
            Parquet files, an `imagefolder` or an `audiofolder`, or one Parquet file.
        name: The configuration of a set that has several.
        revision: Branch, tag or commit of a set on the hub.
        column: The column of inputs; `None` is the only one of its feature, `Image` or `Audio`.
        speaker_column: The column of speakers; `None` is `speaker` or `speaker_id`, if there is one.
        train, validation, test: Splits of the set, joined by `+` if they are several. `None` is `train`; `validation`
            or `val`; and `test`.
        epoch_items: Items of an epoch with `storage: stream`; `None` is the number that the set states.
        **options: Those of `DataModule`. `storage` is `memory` (if the items take at most 4 GiB); `files`, each is
            decoded when a batch needs it, from Arrow files that are mapped into memory; or `stream`, those of training
            are read while they are downloaded, see `StreamedItems`, and those of validation and test are kept in memory
            as they are.
    """

    storages = (MEMORY, FILES, STREAM)
    feature: str

    def __init__(
        self,
        path: str,
        *,
        name: str | None = None,
        revision: str | None = None,
        column: str | None = None,
        speaker_column: str | None = None,
        train: str | None = None,
        validation: str | None = None,
        test: str | None = None,
        epoch_items: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if epoch_items is not None:
            check_number("epoch_items", epoch_items, 1, 2**40)
        self.epoch_items = epoch_items
        self.path, self.name, self.revision = path, name, revision
        self.given_column, self.given_speakers = column, speaker_column
        self.sources = {"train": train, "validation": validation, "test": test}

    def prepare_data(self) -> None:
        """Download the set if it is not in the library's cache; every process of a run calls this."""
        _ = self.sets

    @cached_property
    def sets(self) -> "dict[str, datasets.Dataset]":
        """The splits of the set by their own names."""
        return load(self.path, self.name, self.revision, stream=self.storage == STREAM)

    @cached_property
    def found(self) -> dict[str, Rows]:
        """The splits that the set has."""
        library, found = imported(), {}
        for split, given in self.sources.items():
            names = given.split("+") if given else [name for name in SPLIT_NAMES[split] if name in self.sets][:1]
            if missing := [name for name in names if name not in self.sets]:
                raise InputError(f"{self.path}: no split {missing[0]!r} (found: {', '.join(self.sets)})")
            if names:
                parts = [self.sets[name] for name in names]
                joined = parts[0] if len(parts) == 1 else library.concatenate_datasets(parts)
                joined = joined if split == "train" else self.at_hand(joined)
                found[split] = Rows(joined, f"{self.path}, {'+'.join(names)}")
        if "train" not in found:
            raise InputError(f"{self.path}: no split 'train' (found: {', '.join(self.sets)}); set `train`")
        if self.storage == STREAM and (missing := [split for split in SPLIT_NAMES if split not in found]):
            raise InputError(f"{self.path}: storage=stream holds nothing out; name a split for {' and '.join(missing)}")
        return found

    def at_hand(self, dataset: Any) -> "datasets.Dataset":
        """A split whose rows are taken by their places: a stream is downloaded."""
        import pyarrow

        if self.storage != STREAM:
            return dataset
        return imported().Dataset(pyarrow.concat_tables(dataset.with_format("arrow").iter(AT_ONCE)))

    @cached_property
    def features(self) -> "datasets.Features":
        """What the columns hold."""
        return self.found["train"].dataset.features

    def one_column(self, argument: str, given: str | None, kind: str, found: Sequence[str]) -> str:
        """The column that is named, or the only one of those found of its kind."""
        if given is not None:
            if given not in self.features:
                raise InputError(f"{self.path}: no column {given!r} (found: {', '.join(self.features)})")
            return given
        if len(found) != 1:
            count = f"{len(found)} columns of {kind} ({', '.join(found)})" if found else f"no column of {kind}"
            raise InputError(f"{self.path}: {count}; choose one of {', '.join(found or self.features)}: `{argument}`")
        return found[0]

    @cached_property
    def column(self) -> str:
        """The column of inputs."""
        return self.one_column("column", self.given_column, self.feature, self.columns_of(self.feature))

    def columns_of(self, kind: str) -> list[str]:
        """The columns of a class of features."""
        return [name for name, feature in self.features.items() if isinstance(feature, getattr(imported(), kind))]

    @cached_property
    def speaker_column(self) -> str | None:
        """The column of speakers."""
        if self.given_speakers is not None:
            return self.one_column("speaker_column", self.given_speakers, "speakers", ())
        return next((name for name in SPEAKER_COLUMNS if name in self.features), None)

    @cached_property
    def rows(self) -> dict[str, Rows]:
        """The rows of train, validation and test; of training some are held out for a split that the set lacks."""
        streams = {"train"} if self.storage == STREAM else set()
        found = {split: rows if split in streams else self.usable(rows) for split, rows in self.found.items()}
        if found.keys() == SPLIT_NAMES.keys():
            return found
        rows = found["train"]
        names = self.names_of(rows)
        names = list(map(str, range(len(rows)))) if names.null_count else names.to_pylist()
        described = zip(names, self.texts(rows), self.speakers_of(rows) or [None] * len(rows), strict=True)
        items = [LabeledFile(Path(name), text, who, str(row)) for row, (name, text, who) in enumerate(described)]
        divided = hold_out({split: [] for split in found} | {"train": items}, Path(self.path))
        held_out = {split: rows.chosen([int(item.location) for item in some]) for split, some in divided.items()}
        return held_out | {split: some for split, some in found.items() if split != "train"}

    def usable(self, rows: Rows) -> Rows:
        """The rows of a split that are items."""
        return rows

    def texts(self, rows: Rows) -> list[str]:
        """The label of each row, by which rows are held out."""
        return [""] * len(rows)

    def names_of(self, rows: Rows) -> "pyarrow.ChunkedArray":
        """The name of the file in each row: of the column `file`, or beside its bytes, without its folder."""
        return rows.column(FILE_COLUMN) if FILE_COLUMN in self.features else rows.column(self.column, "path")

    def speakers_of(self, rows: Rows) -> list[str] | None:
        """The speaker of each row; `None` if one is unknown."""
        if self.speaker_column is None:
            return None
        speakers = rows.column(self.speaker_column)
        return None if speakers.null_count else list(map(str, speakers.to_pylist()))

    def item_names(self) -> dict[str, list[str]]:
        if self.storage == STREAM:
            return {}
        columns = {split: self.names_of(rows) for split, rows in self.rows.items()}
        named = {split: column[: len(column) - column.null_count] for split, column in columns.items()}
        # Silence, which is generated, is last and has no names; a gap elsewhere would give an item another one's name.
        has_all = all(len(column) and not column.null_count for column in named.values())
        return {split: column.to_pylist() for split, column in named.items()} if has_all else {}

    def inputs(self, split: str, read: Callable[[Any], Tensor], item_bytes: int) -> Tensor | MappedRows:
        """The inputs of a split, of so many bytes each, in memory or not; `rows` keeps what can be read."""
        rows = self.rows[split]
        in_memory = self.storage == MEMORY and len(rows) * item_bytes <= IN_MEMORY_BYTES
        if in_memory or split == TEST:  # in which no other item may stand for one that cannot be read
            check = read if in_memory else lambda file: read(file).shape
            places, known = readable_files(rows.files(self.column), check, split, self.broken, verb="reading")
            self.rows[split] = rows = rows if len(places) == len(rows) else rows.chosen(places)
            if in_memory:
                return torch.stack(known)
        self.workers = self.reading_workers
        return MappedRows(rows.files(self.column), read, replace=split != TEST)

    def streamed(self, **how: Callable) -> StreamedItems:
        """The items of training as a stream; see `StreamedItems`."""
        splits = [(name, self.sets[name].info.splits or {}) for name in (self.sources["train"] or "train").split("+")]
        stated = [known[name].num_examples if name in known else 0 for name, known in splits]
        if not (count := self.epoch_items or (all(stated) and sum(stated))):
            raise InputError(f"{self.path}: does not state how many items it has; set epoch_items")
        stream = self.found["train"].dataset.with_format(None).decode(False)  # of all columns
        return StreamedItems(stream, count, max(1, self.workers), self.seed, name=self.path, **how)

    def training_batches(self, ranks: int | None = None) -> Batches:
        if self.storage != STREAM:
            return super().training_batches(ranks)
        options = {"seed": self.seed, "accumulate": self.accumulate, "ranks": ranks}
        return StreamBatches(len(self.train), self.batch, shuffle=True, **options)

    def content(self, row: dict[str, Any]) -> Content:
        """The file in a row of the stream."""
        import pyarrow

        value = row[self.column] or {"bytes": None, "path": None}
        return Content(pyarrow.py_buffer(value["bytes"] or b""), f"{self.path}: {value['path'] or 'a row'}")
