"""Packs: written again after an interruption, checked, and refused if they are damaged."""

import json
import re
from pathlib import Path

import numpy
import pyarrow
import pytest
import torch

from vitspeech.data import Shapes, TensorItems, WaveformData
from vitspeech.data.storage import packed
from vitspeech.data.storage.format import SPLITS
from vitspeech.data.storage.pack import Entries, PackWriter, check_pack, pack
from vitspeech.data.storage.packed import Pack
from vitspeech.errors import InputError

OPTIONS = {"progress": False, "shard_mb": 0.2}  # a record batch of 64 pictures has 0.19 MiB


def written(folder: Path, **options) -> Path:
    pack(Shapes(count=300), folder, {"class_path": "Shapes"}, **OPTIONS | options)
    return folder


class Tones(WaveformData):
    """Clips, which have noise."""

    labels = ["low", "high"]

    def read(self, split):
        return TensorItems(torch.arange(30 * self.samples, dtype=torch.int16).view(30, -1), torch.arange(30) % 2)


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
    with pytest.raises(InputError, match="is not finished; run the same `vitspeech pack` again"):
        Pack(tmp_path / "again")
    assert contents(written(tmp_path / "again")) == whole
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "again").iterdir()}
    written(tmp_path / "again")  # it is complete
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "again").iterdir()} == before


def test_two_processes_do_not_write_one_pack(tmp_path, monkeypatch):
    folder, refused, original = tmp_path / "pack", [], PackWriter.write_shard

    def write_shard(self, file, rows):
        if not refused:
            (folder / ".train-00000.arrow.0123.draft").write_bytes(b"half a shard")
            with pytest.raises(InputError, match="pack: another process is writing it") as caught:
                written(folder)
            refused.append(caught)
            (folder / ".train-00000.arrow.0123.draft").unlink()  # was left alone
        return original(self, file, rows)

    monkeypatch.setattr(PackWriter, "write_shard", write_shard)
    assert refused == [] and check_pack(written(folder), progress=False) == 420 and refused
    written(folder)  # is locked no more


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds a pack with shard_mb=0\.2, not 0\.3"):
        written(written(tmp_path / "pack"), shard_mb=0.3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").touch()
    with pytest.raises(InputError, match="mine: holds other files"):
        written(tmp_path / "mine")


def test_arguments_that_choose_items_are_compared(tmp_path):
    source = {"class_path": "Shapes", "init_args": {"count": 300, "words": ["a", "b"], "older": 1}}
    pack(Shapes(count=300), tmp_path / "pack", source, **OPTIONS)
    made = Pack(tmp_path / "pack")
    made.check_arguments({"count": 300, "words": ["a", "b"], "newer": None})
    with pytest.raises(InputError, match=r"was packed with words=\['a', 'b'\]; the config asks for \['a'\]"):
        made.check_arguments({"count": 300, "words": ["a"]})


def test_items_that_changed_since_packing_was_interrupted_are_noticed(tmp_path, monkeypatch):
    def stop(self, split):
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(PackWriter, "write_index", stop)
        with pytest.raises(Stopped):
            written(tmp_path / "pack")
    with pytest.raises(InputError, match="was begun with other items of train than there are now"):
        pack(Shapes(count=301), tmp_path / "pack", {"class_path": "Shapes"}, **OPTIONS)


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
    for change, message in (({"format": 99}, "of format 1"), ({"labels": None, "splits": None}, r"\(labels, splits\)")):
        values = json.loads(text) | change
        description.write_text(json.dumps({name: value for name, value in values.items() if value is not None}))
        with pytest.raises(InputError, match=message):
            Pack(folder)


def test_a_changed_byte_is_found_in_what_describes_the_items_and_in_the_noise(tmp_path):
    for name in ("train.index.arrow", "noise.arrow"):
        folder = tmp_path / name
        pack(Tones(), folder, {}, **OPTIONS)
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
        with pytest.raises(InputError, match=re.escape(f"{name}: is not as it was written")):
            check_pack(folder, progress=False)
        (folder / name).write_bytes(content[:-8])
        with pytest.raises(InputError, match=re.escape(f"{name}: has ")):
            Pack(folder)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("name", ["train-00000.arrow", "train.index.arrow"])
def test_a_compressed_file_is_refused_before_it_fills_the_memory(tmp_path, compression, name):
    folder = written(tmp_path / "pack")
    file = folder / name
    whole = pyarrow.ipc.open_file(file).read_all()
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_file(file, whole.schema, options=options) as writer:
        writer.write_table(whole, 64)
    description = json.loads((folder / "pack.json").read_text())
    described = {shard["file"]: shard for shard in description["splits"]["train"]} | description["files"]
    described[name]["bytes"] = file.stat().st_size
    (folder / "pack.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=f"{name}: is compressed"):
        Pack(folder).rows("train")[torch.arange(5)], Pack(folder).table("train")


def test_offsets_that_lead_out_of_a_shard_are_refused(tmp_path):
    folder = written(tmp_path / "pack")
    file = folder / "train-00000.arrow"
    content = file.read_bytes()
    offset = (2 * 3072).to_bytes(8, "little")
    assert content.count(offset + (3 * 3072).to_bytes(8, "little"))
    file.write_bytes(content.replace(offset, (2**40).to_bytes(8, "little")))
    with pytest.raises(InputError, match=r"train-00000\.arrow: is broken \(an item lies outside of it\)"):
        Pack(folder).rows("train")[torch.arange(5)]


def test_a_process_keeps_a_bounded_number_of_files_open(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "MOST_OPEN", 2)
    found, items = Pack(written(tmp_path / "pack", shard_mb=0.1)), Shapes(count=300).read("train")
    rows, order = found.rows("train"), torch.randperm(300)
    assert len(rows.shards.files) == 5 and torch.equal(rows[order], items.inputs[order])
    assert len(rows.shards.open) == 2
    with pytest.raises(IndexError):
        rows[torch.tensor([300])]


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

    with pytest.warns(
        UserWarning, match=r"^3 of 300 items of \w+ cannot be read and are left out; first 3\.png: empty"
    ):
        write(tmp_path / "pack", 0.01)
    made = Pack(tmp_path / "pack")
    kept = [index for index in range(300) if index not in (3, 150, 299)]
    assert made.item_labels("train").tolist() == kept
    assert [row[0].item() for row in made.rows("train")[torch.arange(297)]] == [index % 256 for index in kept]
    assert [item["index"] for item in made.description["broken"]["test"]] == [3, 150, 299]
    with pytest.raises(InputError, match=r"2 of 300 items cannot be read, above broken=0.005; 150\.png: empty"):
        write(tmp_path / "less", 0.005)


def test_a_pack_with_random_changes_is_refused_or_read_but_never_followed_out_of_its_files(tmp_path):
    folder = tmp_path / "pack"
    pack(Tones(seconds=0.1), folder, {}, **OPTIONS | {"shard_mb": 0.05})
    random, read, refused = numpy.random.default_rng(0), 0, 0
    files = sorted(folder.glob("*.arrow"))
    for _ in range(100):
        file = files[random.integers(len(files))]
        whole = file.read_bytes()
        content = numpy.frombuffer(whole, numpy.uint8).copy()
        places = random.integers(0, 1500, 3) % len(content)  # where Arrow says what follows; its end says it again
        content[places - (random.random() < 0.5) * 1500 % len(content)] = random.integers(0, 256, 3)
        file.write_bytes(content.tobytes())
        try:
            data = Tones(seconds=0.1, batch=5, storage=str(folder), workers=0)
            data.setup("fit")
            _ = data.train[torch.arange(30), 0], data.item_names(), data.items_of("test").speakers, data.noise
            read += 1
        except InputError:
            refused += 1
        file.write_bytes(whole)
    assert read > 5 and refused > 20
