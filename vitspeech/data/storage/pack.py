"""What a pack is: a folder with the items of a data set in a few large files, and `pack.json`, which describes them.

FOLDER/pack.json                        the data set, its labels and arguments, and the files of each split
FOLDER/train-00000-of-00012.arrow       items, see `shards.py`
FOLDER/noise-00000-of-00001.arrow       recordings of noise, of sound that has some
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vitspeech.data.files import write_json
from vitspeech.documents import parse_json, read_text
from vitspeech.errors import InputError

PACK = "pack.json"
FORMAT, VERSION = "vitspeech pack", 1
MOST_BYTES = 2**26  # of pack.json: a line for each shard of some terabytes
SPLITS = ("train", "validation", "test")
NOISE = "noise"
REPACK = "pack the data set again with `vitspeech pack`"


@dataclass(frozen=True)
class ShardEntry:
    """A finished shard.

    Args:
        file: Its name in the pack's folder.
        rows: Number of rows.
        bytes: Size of the file.
        sha256: Checksum of the file.
        broken: The names of items that could not be read and are left out.
    """

    file: str
    rows: int
    bytes: int
    sha256: str
    broken: list[str] = field(default_factory=list)


@dataclass
class SplitEntry:
    """A split of a pack.

    Args:
        items: Number of items when packing began.
        items_sha256: Checksum of their names, targets and sizes, in their order.
        shards: The finished shards; each is there in a complete pack.
        rows_per_batch: Rows of each record batch.
        speakers: Whether the speaker of every item is known.
        named: Whether items have names.
    """

    items: int
    items_sha256: str
    rows_per_batch: int
    speakers: bool
    named: bool
    shards: list[ShardEntry] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of items that can be read."""
        return sum(shard.rows for shard in self.shards)


@dataclass
class Pack:
    """The contents of `pack.json`.

    Args:
        folder: The folder of the pack.
        data: Name of the class of the data set.
        arguments: The arguments of its constructor that decide what the items are.
        labels: Its labels.
        preprocessing: How inputs were read.
        shape: Shape of every input; `None` if they differ.
        splits: Its splits, and `noise`.
        complete: Whether all shards are written.
    """

    folder: Path
    data: str
    arguments: dict[str, Any]
    labels: list[str]
    preprocessing: dict[str, Any]
    shape: list[int] | None
    splits: dict[str, SplitEntry]
    complete: bool = False

    def write(self) -> None:
        """Write `pack.json` atomically."""
        content = asdict(self)
        del content["folder"]
        write_json({"format": FORMAT, "version": VERSION, **content}, self.folder / PACK)

    def check_files(self) -> None:
        """Check that every shard is there and has its size.

        Raises:
            FileNotFoundError: If one is missing.
            InputError: If one has another size, or the pack is not complete.
        """
        if not self.complete:
            raise InputError(f"{self.folder}: packing did not finish; the same `vitspeech pack` command goes on")
        for split in self.splits.values():
            for shard in split.shards:
                file = self.folder / shard.file
                if not file.is_file():
                    raise FileNotFoundError(f"{file}: is missing; copy it again, or {REPACK}")
                if (size := file.stat().st_size) != shard.bytes:
                    problem = "truncated" if size < shard.bytes else "too long"
                    raise InputError(
                        f"{file}: {problem}: {size:,} of {shard.bytes:,} bytes; copy it again, or {REPACK}"
                    )


def is_pack(folder: str | Path) -> bool:
    """Whether a folder holds a pack."""
    return (Path(folder) / PACK).is_file()


def read_pack(folder: str | Path) -> Pack:
    """Read and check `pack.json`.

    Raises:
        FileNotFoundError: If there is none.
        InputError: If it is not one of this version.
    """
    file = Path(folder) / PACK
    if not file.is_file():
        raise FileNotFoundError(f"{folder}: no pack in this folder ({PACK} is missing); make it with `vitspeech pack`")
    content = parse_json(read_text(file, most_bytes=MOST_BYTES), str(file))
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError(f"{file}: not a pack of vitspeech")
    if (version := content.pop("version", None)) != VERSION:
        raise InputError(f"{file}: has version {version!r:.20}, and this vitspeech reads {VERSION}; {REPACK}")
    check_keys(content, PACK_TYPES, str(file))
    if not all(isinstance(label, str) for label in content["labels"]):
        raise InputError(f"{file}: labels are not texts")
    shape = content["shape"]
    if shape is not None and not all(type(size) is int and 0 < size < 2**31 for size in shape):
        raise InputError(f"{file}: shape is not a list of sizes")
    if not set(SPLITS) <= content["splits"].keys() <= {*SPLITS, NOISE}:
        raise InputError(f"{file}: splits are not {', '.join(SPLITS)}")
    splits = {name: read_split(entry, f"{file}: {name}") for name, entry in content.pop("splits").items()}
    return Pack(Path(folder), splits=splits, **content)


def read_split(entry: Any, place: str) -> SplitEntry:
    """Check the entry of a split.

    Raises:
        InputError: If a key is missing, unknown or of another type.
    """
    check_keys(entry, SPLIT_TYPES, place)
    shards = []
    for shard in entry["shards"]:
        check_keys(shard, SHARD_TYPES, f"{place}: shards")
        if Path(shard["file"]).name != shard["file"] or min(shard["rows"], shard["bytes"]) < 0:
            raise InputError(f"{place}: {shard['file']!r:.60} is not a file in the pack, or has a negative size")
        shards.append(ShardEntry(**shard))
    if entry["rows_per_batch"] < 1:
        raise InputError(f"{place}: rows_per_batch is below 1")
    return SplitEntry(**{**entry, "shards": shards})


PACK_TYPES = {
    "data": str,
    "arguments": dict,
    "labels": list,
    "preprocessing": dict,
    "shape": list | None,
    "splits": dict,
    "complete": bool,
}
SPLIT_TYPES = {
    "items": int,
    "items_sha256": str,
    "rows_per_batch": int,
    "speakers": bool,
    "named": bool,
    "shards": list,
}
SHARD_TYPES = {"file": str, "rows": int, "bytes": int, "sha256": str, "broken": list}


def check_keys(entry: Any, types: Mapping[str, Any], place: str) -> None:
    """Check that a JSON object has these keys, of these types, and no others.

    Raises:
        InputError: If it does not.
    """
    if not isinstance(entry, dict):
        raise InputError(f"{place}: is not a JSON object")
    for key, kind in types.items():
        value = entry.get(key)
        if key not in entry or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InputError(f"{place}: {key} is missing, or not what it should be")
    if unknown := sorted(entry.keys() - types.keys()):
        raise InputError(f"{place}: unknown key {unknown[0]!r:.40}")


def open_pack(storage: str, root: str | Path | None, data: str, arguments: Mapping[str, Any]) -> Pack | None:
    """The pack that `storage` names, or else the root; `None` if neither does.

    Args:
        storage: `memory`, `files` or a folder.
        root: The root of the data set, which may be a pack itself.
        data: Name of the class that reads it.
        arguments: The arguments that the config asks for; those that are `None` may be any.

    Raises:
        FileNotFoundError: If a folder has no pack, or a shard is missing.
        InputError: If the pack is broken, or of another data set.
    """
    named = storage not in ("memory", "files")
    if not named and (root is None or not is_pack(root)):
        return None
    pack = read_pack(storage if named else root)
    if pack.data != data:
        raise InputError(f"{pack.folder}: a pack of {pack.data}, and the config asks for {data}")
    check_arguments(pack, arguments)
    pack.check_files()
    return pack


def check_arguments(pack: Pack, arguments: Mapping[str, Any]) -> None:
    """Check that a pack was made with the arguments that a config asks for.

    Raises:
        InputError: If it was not.
    """
    for name, wanted in arguments.items():
        packed, asked = pack.arguments.get(name), list(wanted) if isinstance(wanted, tuple) else wanted
        if asked is not None and packed != asked:
            raise InputError(
                f"{pack.folder}: packed with {name}={packed!r:.60}, and the config asks for {asked!r:.60}; {REPACK}"
            )
