"""A million items in Arrow files: how much memory a process takes that trains on them."""

import json
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
import torch
from tiny import ROOT

from vitspeech.data.pack import encoded, write

ITEMS, SAMPLES = 1_000_000, 1600
MOST_MB = 60  # labels and the order of an epoch take 8 MB each; the clips would take 3,200 MB
MOST_WORKER_MB = 150  # a worker grows by about 110 MB in its first 200 batches, which are freed and made again
MEASURE = """
import json, sys
import datasets  # which takes memory of its own
from vitspeech.data import HuggingFaceClips

def own_mb(process="self"):
    # Memory of the process itself, without pages of files, which the kernel shares and drops as it needs.
    with open(f"/proc/{process}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1000

data = HuggingFaceClips(sys.argv[1], seconds=0.1, batch=512, storage="files", workers=2)
before = own_mb()
data.setup("fit")
loader = data.train_dataloader()
loader.sampler.set_epoch(0)
batches, first = iter(loader), []
for _ in range(1000):
    clips, labels, _ = next(batches)
    first.append(((clips[:, 0] % 2).long() == labels).all().item())
workers = [own_mb(worker.pid) for worker in batches._workers]
print(json.dumps({"items": len(data.train), "right": all(first), "main": own_mb() - before,
                  "workers": [worker - before for worker in workers]}))
"""


@pytest.fixture(scope="module")
def million(tmp_path_factory) -> Path:
    """A set of 3.2 GB. The first sample of a clip tells its label."""
    features = {"audio": datasets.Audio(16_000), "label": datasets.ClassLabel(names=["low", "high"])}
    schema, folder = datasets.Features(features).arrow_schema, tmp_path_factory.mktemp("million")
    sets = {}
    for split, count in (("train", ITEMS), ("validation", 1000), ("test", 1000)):
        sounds = [encoded(torch.tensor([number] + [0] * (SAMPLES - 1), dtype=torch.int16)) for number in range(1000)]
        rows = [{"audio": {"bytes": content, "path": None}, "label": n % 2} for n, content in enumerate(sounds)]
        write(folder / split, schema, (rows for _ in range(count // 1000)))
        sets[split] = datasets.Dataset.from_file(str(folder / split))
    datasets.DatasetDict(sets).save_to_disk(folder / "set")
    return folder / "set"


@pytest.mark.slow
def test_a_million_items_take_no_more_memory_than_their_labels_and_order(million):
    run = subprocess.run([sys.executable, "-c", MEASURE, million], capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["items"] == ITEMS and found["right"]
    assert found["main"] < MOST_MB and max(found["workers"]) < MOST_WORKER_MB, found
