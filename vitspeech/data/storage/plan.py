"""What is packed, and into which shards: known before any item is read in full."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vitspeech.data.batches import Items
from vitspeech.data.module import InMemoryData
from vitspeech.data.storage.broken import Broken
from vitspeech.data.storage.pack import NOISE, SPLITS, Pack, SplitEntry
from vitspeech.data.storage.rows import FileRows, JoinedRows, MemoryRows, Rows
from vitspeech.data.storage.shards import Row
from vitspeech.errors import InputError

BATCH_BYTES = 4 * 2**20  # of a record batch, about
MOST_ROWS = 4096  # of a record batch


@dataclass
class Contents:
    """The items of a split, which are read one by one.

    Args:
        inputs: The inputs.
        targets: The label's index or the transcript of each.
        speakers: Who speaks each; `None` if not all are known.
        names: The names of the items; the last items may have none.
        sound: Whether inputs are samples.
    """

    inputs: Rows
    targets: Sequence[Any]
    speakers: Sequence[str] | None
    names: Sequence[str]
    sound: bool

    def __len__(self) -> int:
        return len(self.inputs)

    def row(self, index: int) -> Row:
        """Read an item."""
        content = self.inputs.content(index)
        return Row(
            content,
            self.targets[index],
            None if self.speakers is None else self.speakers[index],
            self.name(index),
            len(content) // 2 if self.sound else None,
        )

    def name(self, index: int) -> str | None:
        """The name of an item, if it has one."""
        return self.names[index] if index < len(self.names) else None

    @property
    def broken(self) -> Broken:
        """How many more files may be broken."""
        files = self.inputs.rows if isinstance(self.inputs, JoinedRows) else self.inputs
        return files.broken if isinstance(files, FileRows) else Broken(0, len(self))


@dataclass
class Plan:
    """A pack to be written, and what each of its shards will have.

    Args:
        pack: The pack, without shards.
        contents: The items of each split.
        starts: The first item of each shard of a split, and the number of its items.
        bytes: About how large the pack will be.
    """

    pack: Pack
    contents: dict[str, Contents]
    starts: dict[str, list[int]]
    bytes: int

    def file(self, split: str, number: int) -> str:
        """The file name of a shard."""
        return f"{split}-{number:05}-of-{len(self.starts[split]) - 1:05}.arrow"


def make_plan(data: InMemoryData, folder: Any, shard_bytes: int, threads: int) -> Plan:
    """List the items of a data set, and divide them into shards.

    Raises:
        InputError: If the data set cannot be packed, or too many files are broken.
        FileNotFoundError: If its files are missing.
    """
    if "pack" not in data.storages:
        raise InputError(f"{type(data).__name__} cannot be packed: it reads no files, or not one for each item")
    if data.pack is not None:
        raise InputError(f"{data.pack.folder}: is a pack already")
    if "files" in data.storages:
        data.storage = "files"
    data.prepare_data()
    data.check_names()
    contents = {split: contents_of(data, split) for split in SPLITS}
    if noise := data.noise_to_pack():
        contents[NOISE] = Contents(MemoryRows(list(noise.values())), [0] * len(noise), None, list(noise), True)
    entries, starts, total = {}, {}, 0
    with ThreadPoolExecutor(threads) as pool:
        for split, some in contents.items():
            sizes = [*pool.map(some.inputs.size, range(len(some)))]
            starts[split] = shard_starts(sizes, shard_bytes)
            total += sum(sizes)
            mean = max(sum(sizes) // len(sizes), 1)
            rows_per_batch = min(max(BATCH_BYTES // mean, 1), MOST_ROWS)
            entries[split] = SplitEntry(
                len(some), checksum(some, sizes), rows_per_batch, some.speakers is not None, bool(some.names)
            )
    shape = data.row_shape
    pack = Pack(
        folder,
        type(data).__name__,
        dict(data.packed_as),
        list(data.labels),
        data.preprocessing,
        None if shape is None else list(shape),
        entries,
    )
    return Plan(pack, contents, starts, total)


def contents_of(data: InMemoryData, split: str) -> Contents:
    """The items of a split, with what the data set knows about each."""
    items = data.read_checked(split)
    sound = data.items != "images"
    if isinstance(items, Items):
        inputs: Rows = MemoryRows(items.inputs) if isinstance(items.inputs, Tensor) else items.inputs
        targets: Sequence[Any] = items.labels.tolist()
        speakers = items.speakers
    else:
        inputs, targets = items.sounds, [" ".join(utterance.words) for utterance in items.utterances]
        names = [utterance.speaker for utterance in items.utterances]
        speakers = None if None in names else names
    return Contents(inputs, targets, speakers, data.item_names().get(split, []), sound)


def shard_starts(sizes: Sequence[int], shard_bytes: int) -> list[int]:
    """The first item of each shard, and the number of items: a shard ends with the item that fills it."""
    ends = torch.tensor(sizes, dtype=torch.int64).cumsum(0)
    numbers = (ends - torch.tensor(sizes)) // shard_bytes
    changes = (numbers.diff() > 0).nonzero()[:, 0] + 1
    return [0, *changes.tolist(), len(sizes)]


def checksum(contents: Contents, sizes: Sequence[int]) -> str:
    """A checksum of what is packed: names, targets and sizes of all items, in their order."""
    digest = hashlib.sha256()
    for index, size in enumerate(sizes):
        digest.update(f"{contents.name(index)}\t{contents.targets[index]}\t{size}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
