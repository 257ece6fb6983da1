"""Memory and start-up of a data set on disk by its number of items, each measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import datasets
import numpy
import pyarrow

ROWS_AT_ONCE = 100_000
MEASURE = """
import json, sys, time
from pathlib import Path
import datasets
import torch
from vitspeech.data.batches import Batches, TensorItems
from vitspeech.data.hub import load
from vitspeech.data.hugging_face import MappedRows, Rows

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

def decode(file):
    return torch.tensor([file.content.size])

def first(number):
    start = time.perf_counter()
    rows = Rows(load(sys.argv[1], None, None)["train"], "train")
    labels = torch.from_numpy(rows.column("label").to_numpy().copy())
    items = TensorItems(MappedRows(rows.files("audio"), decode), labels)
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
    """The memory of a process that reads a set of `count` items of one byte, and the time until its first batch.

    Returns:
        `items`, `bytes` (not shared with other processes), `bytes_per_item`, `first_batch_s` (from opening the set to
        the first batch of an epoch) and `last_batch_s` (the same to its last batch, at which a run may be resumed).
    """
    write_set(folder, count)
    output = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder)], check=True, capture_output=True, text=True
    ).stdout
    values = json.loads(output)
    return values | {"bytes_per_item": values["bytes"] / values["items"]}


def write_set(folder: Path, count: int) -> None:
    """Write a set of items of one byte, with names, as `vitspeech pack` would."""
    features = datasets.Features(
        {"audio": datasets.Audio(16_000), "file": datasets.Value("string"), "label": datasets.ClassLabel(names=["a"])}
    )
    schema, draft = features.arrow_schema, folder.with_name(f"{folder.name}.arrow")
    with pyarrow.OSFile(str(draft), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as writer:
        for first in range(0, count, ROWS_AT_ONCE):
            rows = min(ROWS_AT_ONCE, count - first)
            names = pyarrow.array(numpy.arange(first, first + rows).astype(str))
            files = pyarrow.StructArray.from_arrays([pyarrow.array([b"0"] * rows), names], ["bytes", "path"])
            labels = pyarrow.array(numpy.zeros(rows, numpy.int64))
            writer.write_batch(pyarrow.record_batch([files, names, labels], schema=schema))
    datasets.DatasetDict(train=datasets.Dataset.from_file(str(draft))).save_to_disk(folder)
    draft.unlink()
