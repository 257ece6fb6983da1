"""A folder a class: splits, labels, and what is wrong with a folder."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from vitspeech.data.images import folder as image_folder
from vitspeech.data.images.folder import ImageFolder
from vitspeech.errors import InputError


def fill(folder: Path, classes: dict[str, int]) -> Path:
    """Pictures of a gray that is the class's own, of different sizes."""
    for gray, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.new("L", (20 + number, 31), 40 * gray).save(folder / name / f"{number}.png")
    return folder


def test_a_flat_folder_is_split_in_three_without_overlap(tmp_path):
    data = ImageFolder(str(fill(tmp_path, {"ape": 30, "bee": 20})), image=8)
    data.setup("fit")
    splits = data.splits
    assert data.labels == ["ape", "bee"]
    assert [len(splits[name]) for name in ("train", "validation", "test")] == [41, 4, 5]
    assert len({item.file for items in splits.values() for item in items}) == 50
    assert data.train.inputs.shape == (41, 3, 8, 8)


def test_a_class_whose_pictures_are_all_held_out_is_refused(tmp_path):
    root = fill(tmp_path, {"train/ape": 30, "train/bet": 2})  # by their hashes, both are of the test
    with pytest.raises(InputError, match="all pictures of bet are held out; add more"):
        ImageFolder(str(root), image=8).setup("fit")


def test_pictures_keep_their_splits_when_others_are_added(tmp_path):
    root = fill(tmp_path, {"ape": 30, "bee": 20})
    data = ImageFolder(str(root), image=8)
    before = data.item_names()
    assert all((data.item_root / name).is_file() for names in before.values() for name in names)
    assert sorted(name for names in before.values() for name in names)[0] == "ape/0.png"
    Image.new("L", (20, 31)).save(root / "ape" / "000.png")
    after = ImageFolder(str(root), image=8).item_names()
    assert all(set(before[split]) <= set(after[split]) for split in before)
    assert sum(map(len, after.values())) == 51


def test_folders_of_splits_are_used_as_they_are(tmp_path):
    fill(tmp_path / "train", {"ape": 5, "bee": 6})
    fill(tmp_path / "val", {"ape": 2, "bee": 1})
    fill(tmp_path / "test", {"bee": 4})
    data = ImageFolder(str(tmp_path), image=8)
    data.setup("fit")
    assert (len(data.train), len(data.validation), len(data.read("test"))) == (11, 3, 4)
    assert data.read("test").labels.tolist() == [1] * 4


def test_a_set_too_large_for_memory_is_read_batch_by_batch(tmp_path, monkeypatch):
    folder = str(fill(tmp_path, {"ape": 15, "bee": 15}))
    whole = ImageFolder(folder, image=8, batch=5, workers=0)
    whole.setup("fit")
    monkeypatch.setattr(image_folder, "IN_MEMORY_BYTES", 1)
    streamed = ImageFolder(folder, image=8, batch=5, workers=0)
    streamed.setup("fit")
    assert isinstance(streamed.train.inputs, image_folder.PictureRows)
    for one, other in zip(whole.train_dataloader(), streamed.train_dataloader(), strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1]) and one[2] == other[2]


def test_a_wrong_folder_is_reported_with_the_reason(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder"):
        ImageFolder(str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="no class folders"):
        ImageFolder(str(tmp_path))
    fill(tmp_path / "train", {"ape": 5})
    (tmp_path / "train" / "hollow").mkdir()
    with pytest.raises(ValueError, match="hollow: no files of this class"):
        ImageFolder(str(tmp_path)).setup("fit")
    (tmp_path / "train" / "hollow").rmdir()
    fill(tmp_path / "test", {"gnu": 1})
    with pytest.raises(ValueError, match="gnu: training does not have the label 'gnu'; known: ape"):
        ImageFolder(str(tmp_path)).setup("fit")


def test_a_broken_picture_is_named_before_training(tmp_path):
    fill(tmp_path / "train", {"ape": 5, "bee": 5})
    (tmp_path / "train" / "bee" / "9.png").touch()
    fill(tmp_path / "val", {"ape": 1})
    fill(tmp_path / "test", {"ape": 1})
    with pytest.raises(ValueError, match=r"9\.png: empty"):
        ImageFolder(str(tmp_path)).setup("fit")


def test_hidden_files_and_folders_are_no_pictures_and_no_classes(tmp_path):
    fill(tmp_path / "train", {"ape": 5, "bee": 5, ".thumbs": 1})
    (tmp_path / "train/ape/._0.png").write_bytes(b"resource fork")
    data = ImageFolder(str(tmp_path))
    data.setup("fit")
    assert data.labels == ["ape", "bee"]
    assert not [name for names in data.item_names().values() for name in names if "/." in name]
