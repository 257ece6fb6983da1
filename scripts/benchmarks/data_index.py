"""Memory and start-up of a pack by its number of items, each measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pyarrow

from vitspeech.data.storage.format import DESCRIPTION, ROWS_PER_BATCH, SCHEMA, index_file, shard_file
from vitspeech.data.storage.pack import PackWriter
from vitspeech.files import sha256

ROWS_PER_SHARD = 500_000
MEASURE = """
import json, sys, time
from pathlib import Path
import torch
from vitspeech.data.batches import Batches, TensorItems
from vitspeech.data.storage.packed import Pack

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

def first(number):
    start = time.perf_counter()
    pack = Pack(sys.argv[1])
    items = TensorItems(pack.rows("train"), pack.item_labels("train"))
    batches = Batches(len(items), 128, shuffle=True)
    batches.begin_at(0, number)
    iterator = iter(batches)
    items[next(iterator)]
    return time.perf_counter() - start, (items, iterator)

before = anonymous()
first_s, kept = first(0)
memory = anonymous() - before
last_s, _ = first(len(kept[0]) // 128 - 1)
print(json.dumps({"items": len(kept[0]), "bytes": memory, "first_batch_s": first_s, "last_batch_s": last_s}))
"""


def measure_index(folder: Path, count: int) -> dict[str, float]:
    """The memory of a process that reads a pack of `count` items of one byte, and the time until its first batch.

    Returns:
        `items`, `bytes` (not shared with other processes), `bytes_per_item`, `first_batch_s` (from opening the pack to
        the first batch of an epoch) and `last_batch_s` (the same to its last batch, at which a run may be resumed).
    """
    write_pack(folder, count)
    output = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder)], check=True, capture_output=True, text=True
    ).stdout
    values = json.loads(output)
    return values | {"bytes_per_item": values["bytes"] / values["items"]}


def write_pack(folder: Path, count: int) -> None:
    """Write a pack of items of one byte, with names, as `vitspeech pack` would."""
    form = {"kind": "numbers", "dtype": "uint8", "shape": [1]}
    about = {"data": {}, "input": form, "items": "items", "labels": ["a"], "preprocessing": {}}
    writer = PackWriter(folder, about, progress=False)
    for split, items in (("train", count), ("validation", 1), ("test", 1)):
        writer.description["splits"][split] = write_shards(folder, split, items)
        index = index_file(folder, split)
        with pyarrow.OSFile(str(index), "wb") as sink, pyarrow.ipc.new_file(sink, DESCRIPTION) as file:
            for first in range(0, items, ROWS_PER_SHARD):
                file.write_batch(described(min(ROWS_PER_SHARD, items - first), first, DESCRIPTION))
    writer.finish()


def write_shards(folder: Path, split: str, items: int) -> list[dict[str, Any]]:
    """Write the shards of a split, and say what they are."""
    shards = []
    for first in range(0, items, ROWS_PER_SHARD):
        path, rows = folder / shard_file(split, len(shards)), min(ROWS_PER_SHARD, items - first)
        with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, SCHEMA) as file:
            for start in range(0, rows, ROWS_PER_BATCH):
                file.write_batch(described(min(ROWS_PER_BATCH, rows - start), first + start, SCHEMA))
        size = {"file": path.name, "items": rows, "until": first + rows, "bytes": path.stat().st_size}
        shards.append(size | {"sha256": sha256(path)})
    return shards


def described(rows: int, first: int, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Items of one byte with a label and a name."""
    numbers = numpy.arange(first, first + rows)
    columns = {
        "input": pyarrow.array([b"0"] * rows if "input" in schema.names else [], SCHEMA.field("input").type),
        "label": pyarrow.array(numpy.zeros(rows, numpy.int64)),
        "name": pyarrow.array(numbers.astype(str)),
        "speaker": pyarrow.nulls(rows, pyarrow.string()),
        "transcript": pyarrow.nulls(rows, pyarrow.string()),
        "bytes": pyarrow.array(numpy.ones(rows, numpy.int64)),
    }
    return pyarrow.record_batch([columns[name] for name in schema.names], schema=schema)
