"""The same items from memory, from files and from a pack; a pack that is killed, damaged or of something else."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy
import pytest
import soundfile
import torch
from PIL import Image

from vitspeech.data import AudioFolder, Cifar, ImageFolder, Shapes, SpeechCommands, TranscribedAudio
from vitspeech.data.clips.speech_commands import FOLDER, URL
from vitspeech.data.storage import packing
from vitspeech.data.storage.checking import check_pack
from vitspeech.data.storage.packed import PackedRows
from vitspeech.data.storage.packing import write_pack
from vitspeech.data.storage.rows import FileRows
from vitspeech.errors import InputError

SPLITS = ("train", "validation", "test")


def sound(path: Path, seed: int, samples: int = 1600) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = numpy.random.default_rng(seed).integers(-9000, 9000, samples).astype(numpy.int16)
    soundfile.write(path, values, 16_000)


def pictures(root: Path) -> Path:
    """Pictures of random pixels, half of them JPEG and larger than they are read."""
    for number in range(36):
        path = root / ("ape", "bee")[number % 2] / f"{number:02}.{('png', 'jpg')[number // 2 % 2]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = numpy.random.default_rng(number).integers(0, 255, (40 + number, 50, 3)).astype(numpy.uint8)
        Image.fromarray(pixels).save(path)
    return root


def words(root: Path) -> Path:
    for number in range(40):
        name = f"{number:08x}_nohash_0" if number % 2 else str(number)
        sound(root / ("no", "yes")[number // 2 % 2] / f"{name}.wav", number, 1600 + 10 * number)
    sound(root / "_background_noise_" / "a.wav", 100, 9000)
    sound(root / "_background_noise_" / "b.wav", 101, 7000)
    return root


def commands(root: Path) -> Path:
    folder = root / FOLDER / URL
    lists = {"validation": [], "test": []}
    for place, word in enumerate(("cat", "no", "up", "yes")):
        for number in range(12):
            name = f"{word}/{number:08x}_nohash_0.wav"
            sound(folder / name, 100 * place + number, 15_000)
            if number > 7:
                lists["validation" if number < 10 else "test"].append(name)
    for number in (1, 2):
        sound(folder / "_background_noise_" / f"{number}.wav", number, 11 * 16_000)
    for split, name in (("validation", "validation_list.txt"), ("test", "testing_list.txt")):
        (folder / name).write_text("\n".join(lists[split]) + "\n")
    return root


def utterances(root: Path) -> Path:
    rows = ["path,transcript,speaker"]
    for number in range(40):
        sound(root / "wavs" / f"{number}.flac", number, 1600 + 97 * number)
        rows.append(f"wavs/{number}.flac,{('go left', 'stop', 'left')[number % 3]},s{number % 9}")
    (root / "train.csv").write_text("\n".join(rows) + "\n")
    return root


KINDS = {
    "pictures": (pictures, lambda root, **rest: ImageFolder(str(root), image=12, batch=7, **rest)),
    "clips": (words, lambda root, **rest: AudioFolder(str(root), seconds=0.1, batch=7, **rest)),
    "commands": (
        commands,
        lambda root, **rest: SpeechCommands(["yes", "no"], str(root), unknown=0.5, silence=0.2, batch=5, **rest),
    ),
    "utterances": (utterances, lambda root, **rest: TranscribedAudio(str(root), batch=6, **rest)),
}


def flat(value):
    """The tensors and numbers of nested tuples and lists."""
    return [part for item in value for part in flat(item)] if isinstance(value, tuple | list) else [value]


def same(one, other) -> bool:
    pairs = zip(flat(one), flat(other), strict=True)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def batches(data) -> list:
    """Two epochs of training and all of validation and test, as workers read them."""
    loader, found = data.train_dataloader(), []
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        found += list(loader)
    return found + list(data.val_dataloader()) + list(data.test_dataloader())


def ready(data):
    data.prepare_data()
    data.setup("fit")
    return data


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    fill, make = KINDS[request.param]
    root = fill(tmp_path_factory.mktemp("root"))
    pack = tmp_path_factory.mktemp("pack") / "pack"
    write_pack(make(root), pack)
    return make, root, pack


@pytest.mark.parametrize("workers", [0, 2])
def test_files_and_packs_give_the_batches_of_memory(kind, workers, tmp_path):
    make, root, pack = kind
    expected = ready(make(root))
    in_files = ready(make(root, storage="files", workers=workers))
    packed = ready(make(tmp_path / "nowhere", storage=str(pack), workers=workers))
    for data in (in_files, packed):
        assert data.labels == expected.labels and data.preprocessing == expected.preprocessing
        assert not data.train.in_memory and data.train_dataloader().num_workers == workers
        for one, other in zip(batches(expected), batches(data), strict=True):
            assert same(one, other)
        names = {split: list(names) for split, names in data.item_names().items()}
        assert names == expected.item_names() and list(names) == list(expected.item_names())
        for split in SPLITS:
            one, other = (getattr(some.read(split), "speakers", None) for some in (expected, data))
            assert (one and list(one)) == (other and list(other))
        if hasattr(expected, "noise"):
            assert torch.equal(expected.noise, data.noise)
        assert getattr(expected, "heard_words", None) == getattr(data, "heard_words", None)


def test_a_root_that_is_a_pack_is_read_as_one(kind):
    make, root, pack = kind
    assert same(tuple(ready(make(pack)).train[torch.arange(5), 1]), tuple(ready(make(root)).train[torch.arange(5), 1]))


def test_a_pack_survives_pickling_without_its_open_files(kind):
    make, _, pack = kind
    data = ready(make(pack))
    copy = pickle.loads(pickle.dumps(data.train))
    assert same(tuple(copy[torch.arange(3), 1]), tuple(data.train[torch.arange(3), 1]))


def test_a_pack_names_no_folder_of_this_machine(kind):
    _, root, pack = kind
    for file in pack.iterdir():
        assert str(root).encode() not in file.read_bytes()


def small(root: Path, **rest) -> AudioFolder:
    return AudioFolder(str(root), seconds=0.1, **rest)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return words(tmp_path_factory.mktemp("words"))


def packed(root: Path, folder: Path) -> Path:
    """A pack of shards of some rows each."""
    write_pack(small(root), folder, shard_mb=0.02)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


class Killed(BaseException):
    pass


def test_packing_goes_on_after_a_kill_and_gives_the_same_bytes(recordings, tmp_path, monkeypatch):
    whole = contents(packed(recordings, tmp_path / "whole"))
    assert len(whole) > 6
    written, write = [], packing.write_shard

    def kill(path, *rest):
        if len(written) == 3:
            path.write_bytes(b"half")
            raise Killed
        written.append(path)
        return write(path, *rest)

    monkeypatch.setattr(packing, "write_shard", kill)
    with pytest.raises(Killed):
        packed(recordings, tmp_path / "killed")
    (tmp_path / "killed" / ".train-00003.abc.draft").write_bytes(b"of a process that was killed")
    with pytest.raises(InputError, match="packing did not finish; the same `vitspeech pack` command goes on"):
        small(tmp_path / "killed")
    monkeypatch.setattr(packing, "write_shard", write)
    before = {name: (tmp_path / "killed" / name).stat().st_mtime_ns for name in contents(tmp_path / "killed")}
    assert contents(packed(recordings, tmp_path / "killed")) == whole
    kept = [name for name, time in before.items() if "train" in name and name[0] != "."]
    assert len(kept) == 3
    assert all((tmp_path / "killed" / name).stat().st_mtime_ns == before[name] for name in kept)


def test_a_finished_pack_is_left_as_it_is(recordings, tmp_path):
    before = contents(packed(recordings, tmp_path / "pack"))
    assert contents(packed(recordings, tmp_path / "pack")) == before


def test_check_finds_a_flipped_bit(recordings, tmp_path):
    folder = packed(recordings, tmp_path / "pack")
    check_pack(folder)
    file = folder / "train-00001-of-00005.arrow"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    small(folder)  # its size is right
    with pytest.raises(InputError, match=r"train-00001-of-00005.arrow: differs from its SHA-256"):
        check_pack(folder)


def test_a_missing_or_truncated_shard_is_named_at_the_start(recordings, tmp_path):
    folder = packed(recordings, tmp_path / "pack")
    file = folder / "train-00002-of-00005.arrow"
    size = file.stat().st_size
    os.truncate(file, size - 100)
    with pytest.raises(InputError, match=rf"train-00002-of-00005.arrow: truncated: {size - 100:,} of {size:,} bytes"):
        small(folder)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"train-00002-of-00005.arrow: is missing"):
        small(folder)


def test_a_shard_of_other_content_is_refused(recordings, tmp_path):
    folder = packed(recordings, tmp_path / "pack")
    file = folder / "train-00000-of-00005.arrow"
    file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(InputError, match=r"train-00000-of-00005.arrow: not a shard that can be read"):
        small(folder).setup("fit")
    shutil.copy(folder / "test-00000-of-00001.arrow", file)
    description = json.loads((folder / "pack.json").read_text())
    description["splits"]["train"]["shards"][0]["bytes"] = file.stat().st_size
    (folder / "pack.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"train-00000-of-00005.arrow: has \d+ rows, and pack.json states \d+"):
        small(folder).setup("fit")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "a zip"}, "not a pack of vitspeech"),
        ({"version": 9}, "has version 9, and this vitspeech reads 1"),
        ({"labels": [1]}, "labels are not texts"),
        ({"labels": "no"}, "labels is missing, or not what it should be"),
        ({"extra": 1}, "unknown key 'extra'"),
        ({"shape": [-1]}, "shape is not a list of sizes"),
        ({"splits": {}}, "splits are not train, validation, test"),
    ],
)
def test_a_pack_json_that_is_none_is_refused_in_one_line(recordings, tmp_path, change, reason):
    folder = packed(recordings, tmp_path / "pack")
    (folder / "pack.json").write_text(json.dumps(json.loads((folder / "pack.json").read_text()) | change))
    with pytest.raises(InputError, match=reason):
        small(folder)


def test_a_shard_outside_of_the_pack_is_refused(recordings, tmp_path):
    folder = packed(recordings, tmp_path / "pack")
    description = json.loads((folder / "pack.json").read_text())
    description["splits"]["train"]["shards"][0]["file"] = "../secret"
    (folder / "pack.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"'../secret' is not a file in the pack"):
        small(folder)


def test_a_pack_of_something_else_is_refused(recordings, tmp_path):
    folder = packed(recordings, tmp_path / "pack")
    with pytest.raises(InputError, match=r"packed with seconds=0.1, and the config asks for 0.2"):
        AudioFolder("nowhere", seconds=0.2, storage=str(folder))
    with pytest.raises(InputError, match="a pack of AudioFolder, and the config asks for ImageFolder"):
        ImageFolder("nowhere", storage=str(folder))
    with pytest.raises(FileNotFoundError, match="no pack in this folder"):
        ImageFolder("nowhere", storage=str(tmp_path))
    with pytest.raises(InputError, match=r"storage=files: Cifar knows memory and pack only"):
        Cifar(storage="files")
    with pytest.raises(InputError, match="holds another pack, with arguments="):
        write_pack(AudioFolder(str(recordings), seconds=0.3), folder)
    with pytest.raises(InputError, match="with shards of another size; give the same --shard-mb"):
        write_pack(small(recordings), folder, shard_mb=0.05)
    with pytest.raises(InputError, match="is a pack already"):
        write_pack(small(folder), tmp_path / "other")
    with pytest.raises(InputError, match="Shapes cannot be packed"):
        write_pack(Shapes(100), tmp_path / "other")


def test_files_that_changed_while_packing_was_interrupted_are_noticed(recordings, tmp_path):
    root = tmp_path / "words"
    shutil.copytree(recordings, root)
    folder = packed(root, tmp_path / "pack")
    (root / "no" / "0.wav").rename(root / "no" / "00.wav")
    with pytest.raises(InputError, match="items are not those that there are now"):
        packed(root, folder)


def test_foreign_files_are_not_mixed_with_a_pack(recordings, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mother.txt").write_text("dear")
    with pytest.raises(InputError, match=r"letters: has files that are no pack, such as mother\.txt"):
        packed(recordings, tmp_path / "letters")
    with pytest.raises(InputError, match=r"mother.txt: is not a folder"):
        packed(recordings, tmp_path / "letters" / "mother.txt")


def test_a_disk_that_is_too_small_is_noticed_before_the_work(recordings, tmp_path, monkeypatch):
    full = shutil.disk_usage(tmp_path)._replace(free=10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(InputError, match=r"pack: about 0\.0 GB are needed, and 0\.0 GB are free"):
        packed(recordings, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


def test_rows_are_located_over_shards_and_a_wrong_index_is_an_error(recordings, tmp_path):
    data = small(packed(recordings, tmp_path / "pack"))
    rows = data.read("train").inputs
    assert isinstance(rows, PackedRows) and len(rows.entry.shards) == 5
    plain = small(recordings).read("train").inputs
    order = torch.randperm(len(rows))
    assert torch.equal(rows[order], plain[order])
    with pytest.raises(IndexError):
        rows.row(len(rows))


def test_memory_is_the_default_and_files_are_asked_for(recordings):
    assert isinstance(small(recordings).read("train").inputs, torch.Tensor)
    assert isinstance(small(recordings, storage="files").read("train").inputs, FileRows)
