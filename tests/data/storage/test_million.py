"""A million items in a pack: how much memory a process takes that trains on them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import ROOT

from vitspeech.data.storage.format import SPLITS
from vitspeech.data.storage.pack import Entries, PackWriter

ITEMS, SAMPLES = 1_000_000, 1600
MOST_MB = 60  # labels and the order of an epoch take 8 MB each; the clips would take 3,200 MB
MOST_WORKER_MB = 150  # a worker grows by about 110 MB in its first 200 batches, which are freed and made again
MEASURE = """
import json, sys
from vitspeech.data import WaveformData

class Tones(WaveformData):
    labels = ["low", "high"]

def own_mb(process="self"):
    # Memory of the process itself, without pages of files, which the kernel shares and drops as it needs.
    with open(f"/proc/{process}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1000

data = Tones(seconds=0.1, batch=512, storage=sys.argv[1], workers=2)
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
    """A pack of 3.2 GB. The first sample of a clip tells its label."""

    def read(index: int) -> bytes:
        return (index % 1000).to_bytes(2, "little") + bytes(2 * SAMPLES - 2)

    def describe(index: int) -> dict:
        return {"label": index % 2, "name": f"clip/{index}.wav", "speaker": f"speaker {index % 5000}"}

    about = {"data": {}, "input": {"kind": "numbers", "dtype": "int16", "shape": [SAMPLES]}, "items": "clips"}
    about |= {"labels": ["low", "high"], "preprocessing": {"sample_rate_hz": 16_000, "seconds": 0.1}}
    folder = tmp_path_factory.mktemp("million") / "pack"
    writer = PackWriter(folder, about, workers=2, progress=False)
    for split in SPLITS:
        writer.write(split, Entries(read, describe, ITEMS if split == "train" else 1000))
    writer.finish()
    return folder


@pytest.mark.slow
def test_a_million_items_take_no_more_memory_than_their_labels_and_order(million):
    run = subprocess.run([sys.executable, "-c", MEASURE, million], capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["items"] == ITEMS and found["right"]
    assert found["main"] < MOST_MB and max(found["workers"]) < MOST_WORKER_MB, found
