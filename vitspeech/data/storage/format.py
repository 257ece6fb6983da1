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
from vitspeech.files import read_json

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
    description = read_json(file, most_bytes=MOST_BYTES)
    found = description if isinstance(description, dict) else {}
    wrong = [key for key, kind in KEYS.items() if not isinstance(found.get(key), kind)]
    if wrong or found.get("format") != FORMAT:
        raise InputError(f"{file}: is not the description of a pack of format {FORMAT} ({', '.join(wrong)})")
    return description


def read_finished(folder: Path) -> dict[str, Any]:
    """The contents of `pack.json` of a pack that is complete."""
    description = read_description(folder)
    if not description["complete"]:
        raise InputError(f"{folder}: is not finished; run the same `vitspeech pack` again")
    return description


def files_of(description: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """The size and the SHA-256 of each file of a pack, by its name."""
    shards = {shard["file"]: shard for some in description["splits"].values() for shard in some}
    return {name: (entry["bytes"], entry["sha256"]) for name, entry in (shards | description["files"]).items()}
