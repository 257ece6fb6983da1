"""Packs: written again after an interruption, checked, and refused if they are damaged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vitspeech.data import Shapes
from vitspeech.data.storage import data_set
from vitspeech.data.storage.data_set import pack
from vitspeech.data.storage.format import SPLITS
from vitspeech.data.storage.pack import Entries, PackWriter, check_pack
from vitspeech.data.storage.packed import Pack
from vitspeech.errors import InputError

OPTIONS = {"progress": False, "shard_mb": 0.2}  # a record batch of 64 pictures has 0.19 MiB


def written(folder: Path, **options) -> Path:
    pack(Shapes(count=300), folder, {"class_path": "Shapes"}, **OPTIONS | options)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


class Stopped(Exception):
    """Stops as a kill does."""


@pytest.mark.parametrize("shards", [0, 1, 2, 3, 4])
def test_a_pack_that_was_interrupted_ends_as_one_that_was_not(tmp_path, monkeypatch, shards):
    whole, count = contents(written(tmp_path / "whole")), 0
    original = PackWriter.write_shard

    def stop(self, file, rows):
        nonlocal count
        if count == shards:
            (self.folder / ".train-00009.arrow.0123.draft").write_bytes(b"half a shard")
            raise Stopped
        count += 1
        return original(self, file, rows)

    with monkeypatch.context() as patch:
        patch.setattr(PackWriter, "write_shard", stop)
        with pytest.raises(Stopped):
            written(tmp_path / "again")
    if shards:
        with pytest.raises(InputError, match="is not finished; run the same `vitspeech pack` again"):
            Pack(tmp_path / "again")
    else:
        (tmp_path / "again/.train-00009.arrow.0123.draft").unlink()  # there is no pack.json that would claim it
    assert contents(written(tmp_path / "again")) == whole
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "again").iterdir()}
    written(tmp_path / "again")  # it is complete
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "again").iterdir()} == before


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds a pack with shard_mb=0\.2, not 0\.3"):
        written(written(tmp_path / "pack"), shard_mb=0.3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").touch()
    with pytest.raises(InputError, match="mine: holds other files"):
        written(tmp_path / "mine")


def test_a_changed_byte_is_found(tmp_path):
    folder = written(tmp_path / "pack")
    assert check_pack(folder, progress=False) == 420
    file = folder / "train-00001.arrow"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"train-00001\.arrow: is not as it was written"):
        check_pack(folder, progress=False)


def test_a_pack_that_is_not_whole_is_refused(tmp_path):
    folder = written(tmp_path / "pack")
    shard, description = folder / "train-00001.arrow", folder / "pack.json"
    content, text = shard.read_bytes(), description.read_text()
    shard.write_bytes(content[:-100])
    with pytest.raises(InputError, match=r"train-00001\.arrow: has .* bytes, not .*; copy it again"):
        Pack(folder)
    shard.unlink()
    with pytest.raises(FileNotFoundError, match=r"train-00001\.arrow: is missing"):
        Pack(folder)
    shard.write_bytes(bytes(len(content)))
    with pytest.raises(InputError, match=r"train-00001\.arrow: is broken"):
        Pack(folder).rows("train")[torch.arange(150, 160)]
    for change, message in (({"format": 99}, "has the format 99"), ({"labels": None, "splits": None}, "pack.json")):
        values = json.loads(text) | change
        description.write_text(json.dumps({name: value for name, value in values.items() if value is not None}))
        with pytest.raises(InputError, match=message):
            Pack(folder)


def test_items_that_cannot_be_read_are_left_out_up_to_a_share(tmp_path):
    def read(index):
        if index in (3, 150, 299):
            raise InputError(f"{index}.png: empty")
        return bytes([index % 256]) * 1000

    def describe(index):
        return {"label": index, "name": str(index), "speaker": None, "transcript": None}

    def write(folder, broken):
        about = {"data": {}, "input": {"kind": "numbers", "dtype": "uint8", "shape": [1000]}, "labels": [], "items": ""}
        writer = PackWriter(
            folder, about | {"preprocessing": {}}, shard_mb=0.1, workers=2, broken=broken, progress=False
        )
        for split in SPLITS:
            writer.write(split, Entries(read, describe, 300))
        writer.finish()

    write(tmp_path / "pack", 0.01)
    made = Pack(tmp_path / "pack")
    kept = [index for index in range(300) if index not in (3, 150, 299)]
    assert made.item_labels("train").tolist() == kept
    assert [row[0].item() for row in made.rows("train")[torch.arange(297)]] == [index % 256 for index in kept]
    assert [item["index"] for item in made.description["broken"]["test"]] == [3, 150, 299]
    with pytest.raises(InputError, match=r"2 of 300 items cannot be read, above broken=0.005; 150\.png: empty"):
        write(tmp_path / "less", 0.005)


def test_other_data_sets_are_refused(tmp_path, monkeypatch):
    data = Shapes(count=100)
    monkeypatch.setattr(data, "read", lambda split: torch.utils.data.TensorDataset(torch.zeros(3)))
    with pytest.raises(InputError, match="a TensorDataset cannot be packed"):
        data_set.pack(data, tmp_path / "pack", {})


MEMORY = """
import sys
from pathlib import Path
from vitspeech.data.batches import Batches, Items
from vitspeech.data.storage.packed import Pack

def anonymous_mib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024

before = anonymous_mib()
pack = Pack(sys.argv[1])
items = Items(pack.rows("train"), pack.item_labels("train"))
for number, batch in enumerate(Batches(len(items), 512, shuffle=True)):
    assert (items[batch][0][:, 0] == items[batch][1] % 100).all()
    if number == 50:
        break
print(len(items), anonymous_mib() - before)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_items_take_a_few_bytes_each(tmp_path):
    def describe(index):
        return {"label": index, "name": f"clip-{index}", "speaker": None, "transcript": None}

    about = {"data": {}, "input": {"kind": "numbers", "dtype": "uint8", "shape": [800]}, "labels": [], "items": ""}
    writer = PackWriter(tmp_path / "pack", about | {"preprocessing": {}}, progress=False)
    for split, count in (("train", 1_000_000), ("validation", 1), ("test", 1)):
        writer.write(split, Entries(lambda index: bytes([index % 100]) * 800, describe, count))
    writer.finish()
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "pack")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    items, mib = output.split()
    assert int(items) == 1_000_000 and float(mib) < 64  # labels and order: 8 bytes an item each
