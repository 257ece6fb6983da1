"""The format of a pack: Arrow files that are mapped into memory, and `pack.json`, which says what they hold.

FOLDER/pack.json             the data set, its labels and preprocessing, and each shard with its SHA-256
FOLDER/train-00000.arrow     shards of a split: record batches of `rows_per_batch` items (Arrow IPC, uncompressed)
FOLDER/train.index.arrow     what describes the items of a split, without their inputs
FOLDER/noise.arrow           the noise that augmentation mixes in, for clips and utterances

An input is the bytes of a picture's file, the pixels of a picture in memory (uint8), or samples (int16).
"""

from pathlib import Path
from typing import Any

import pyarrow

from vitspeech.documents import read_json
from vitspeech.errors import InputError

FORMAT = 1
PACK, NOISE = "pack.json", "noise.arrow"
SPLITS = ("train", "validation", "test")
ROWS_PER_BATCH = 64
DESCRIPTION = pyarrow.schema(
    {
        "label": pyarrow.int64(),
        "name": pyarrow.string(),
        "speaker": pyarrow.string(),
        "transcript": pyarrow.string(),
        "bytes": pyarrow.int64(),
    }
)
SCHEMA = pyarrow.schema([("input", pyarrow.binary()), *DESCRIPTION])


def index_file(folder: Path, split: str) -> Path:
    """The file that describes the items of a split."""
    return folder / f"{split}.index.arrow"


def shard_file(split: str, number: int) -> str:
    """The name of a shard."""
    return f"{split}-{number:05}.arrow"


def read_description(folder: Path) -> dict[str, Any]:
    """The contents of `pack.json`.

    Raises:
        FileNotFoundError: If the folder has none.
        InputError: If it is not the description of a pack of this format.
    """
    file = folder / PACK
    if not file.is_file():
        raise FileNotFoundError(f"{folder}: is not a pack; it has no {PACK} (`vitspeech pack` writes one)")
    description = read_json(file)
    keys = {"format", "complete", "data", "input", "labels", "preprocessing", "splits"}
    if not isinstance(description, dict) or keys - description.keys():
        raise InputError(f"{file}: is not the description of a pack")
    if description["format"] != FORMAT:
        raise InputError(f"{file}: has the format {description['format']}; this version reads format {FORMAT}")
    return description
