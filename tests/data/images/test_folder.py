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
