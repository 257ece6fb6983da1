"""The format of a pack: Arrow files that are mapped into memory, and `pack.json`, which says what they hold.

FOLDER/pack.json             the data set, its labels and preprocessing, and each file with its SHA-256
FOLDER/train-00000.arrow     shards of a split: record batches of `rows_per_batch` items (Arrow IPC, uncompressed)
FOLDER/train.index.arrow     what describes the items of a split, without their inputs
FOLDER/noise.arrow           the noise that augmentation mixes in, for clips

An input is the bytes of a picture's file, the pixels of a picture in memory (uint8), or samples (int16).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow

from vitspeech.errors import InputError
from vitspeech.files import parse_json, read_text

FORMAT = 1
PACK, NOISE = "pack.json", "noise.arrow"
SPLITS = ("train", "validation", "test")
ROWS_PER_BATCH = 64
MOST_BYTES = 2**28  # of pack.json, which has a line for each broken item
DESCRIPTION = pyarrow.schema(
    {
        "label": pyarrow.int64(),
        "name": pyarrow.string(),
        "speaker": pyarrow.string(),
        "transcript": pyarrow.string(),
        "bytes": pyarrow.int64(),
    }
)
SCHEMA = pyarrow.schema([("input", pyarrow.large_binary()), *DESCRIPTION])  # 64 large pictures may have over 2 GiB

KEYS = {"data": dict, "input": dict, "labels": list, "preprocessing": dict, "splits": dict, "complete": bool}
KEYS |= {"rows_per_batch": int, "listed": dict, "broken": dict, "files": dict}
SHARD_KEYS = {"file": str, "items": int, "until": int, "bytes": int, "sha256": str}
FILE_KEYS = {"bytes": int, "sha256": str}
DTYPES = ("uint8", "int16", "int32", "int64", "float32")
NUMBERS = {"kind": str, "dtype": str, "shape": list}


def index_file(folder: Path, split: str) -> Path:
    """The file that describes the items of a split."""
    return folder / f"{split}.index.arrow"


def shard_file(split: str, number: int) -> str:
    """The name of a shard."""
    return f"{split}-{number:05}.arrow"


def read_description(folder: Path) -> dict[str, Any]:
    """The contents of `pack.json`."""
    file = folder / PACK
    if not file.is_file():
        raise FileNotFoundError(f"{folder}: is not a pack; it has no {PACK} (`vitspeech pack` writes one)")
    description = parse_json(read_text(file, most_bytes=MOST_BYTES), str(file))
    if not isinstance(description, dict) or "format" not in description:
        raise InputError(f"{file}: is not the description of a pack")
    if description["format"] != FORMAT:
        raise InputError(f"{file}: has the format {description['format']!s:.20}; this version reads format {FORMAT}")
    check_description(description, str(file))
    return description


def read_finished(folder: Path) -> dict[str, Any]:
    """The contents of `pack.json` of a pack that is complete."""
    description = read_description(folder)
    if not description["complete"]:
        raise InputError(f"{folder}: is not finished; run the same `vitspeech pack` again")
    return description


def check_description(description: dict[str, Any], place: str) -> None:
    """Check the types and ranges of what `pack.json` says, and that it names files of the pack only.

    Args:
        description: The contents of `pack.json`.
        place: Its name, for messages.
    """
    check_keys(description, KEYS, place)
    if not all(isinstance(label, str) for label in description["labels"]):
        raise InputError(f"{place}: `labels` are not texts")
    if description["rows_per_batch"] < 1:
        raise InputError(f"{place}: `rows_per_batch` is below 1")
    form = description["input"]
    if form != {"kind": "file"}:
        check_keys(form, NUMBERS, f"{place}: `input`")
        whole = all(type(size) is int and (size > 0 or size == -1) for size in form["shape"])
        if form["kind"] != "numbers" or form["dtype"] not in DTYPES or not whole or form["shape"].count(-1) > 1:
            raise InputError(f"{place}: `input` is not numbers of a type and shape that a pack has")
    splits = description["splits"]
    if description["complete"] and splits.keys() != set(SPLITS):
        raise InputError(f"{place}: `splits` are not {', '.join(SPLITS)}")
    for split, shards in splits.items():
        if split not in SPLITS or not isinstance(shards, list):
            raise InputError(f"{place}: `splits` are not lists of shards of {', '.join(SPLITS)}")
        for number, shard in enumerate(shards):
            check_keys(shard, SHARD_KEYS, f"{place}: shard {number} of {split}")
            if shard["file"] != shard_file(split, number) or shard["items"] < 1:
                raise InputError(f"{place}: shard {number} of {split} is not a file of this pack, or has no items")
    expected = {index_file(Path(), split).name for split in splits} if description["complete"] else set()
    if description["files"].keys() - {NOISE} != expected:
        raise InputError(f"{place}: `files` are not those of a pack")
    for name, entry in description["files"].items():
        check_keys(entry, FILE_KEYS, f"{place}: {name}")


def check_keys(entry: Any, types: Mapping[str, type], place: str) -> None:
    """Check that a JSON object has these keys with values of these types."""
    for key, kind in types.items():
        value = entry.get(key) if isinstance(entry, dict) else None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InputError(f"{place}: `{key}` is missing, or not what a pack has there")


def files_of(description: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """The size and the SHA-256 of each file of a pack, by its name."""
    shards = {shard["file"]: shard for some in description["splits"].values() for shard in some}
    return {name: (entry["bytes"], entry["sha256"]) for name, entry in (shards | description["files"]).items()}
