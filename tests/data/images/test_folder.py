"""A folder a class: splits, labels, and what is wrong with a folder."""

from functools import partial
from pathlib import Path

import pytest
import torch
from PIL import Image

from vitspeech.data.images import folder as image_folder
from vitspeech.data.images.folder import ImageFolder
from vitspeech.data.rows import FileRows
from vitspeech.errors import InputError
from vitspeech.training.train import TrainingCLI


def fill(folder: Path, classes: dict[str, int]) -> Path:
    """Pictures of a gray that is the class's own, of different sizes."""
    for gray, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            Image.new("L", (20 + number, 31), 40 * gray).save(folder / name / f"{number}.png")
    return folder


def root(folder: Path) -> Path:
    return folder.parent if folder.name == "train" else folder


def test_a_folder_is_split_by_class_wherever_it_lies(tmp_path):
    found = []
    for place in ("photos", "disk/photos/train"):
        data = ImageFolder(str(root(fill(tmp_path / place, {"ape": 30, "bee": 20}))), image=8)
        found.append(
            {split: [item.file.parent.name + item.file.name for item in items] for split, items in data.splits.items()}
        )
    data.setup("fit")
    assert data.labels == ["ape", "bee"] and data.train.inputs.shape == (40, 3, 8, 8)
    assert found[0] == found[1] and [len(names) for names in found[0].values()] == [40, 5, 5]
    assert len({name for names in found[0].values() for name in names}) == 50


def test_a_class_of_too_few_pictures_for_every_split_is_named(tmp_path):
    data = ImageFolder(str(fill(tmp_path, {"ape": 30, "bee": 2})), image=8)
    with pytest.warns(UserWarning, match="too few for each split: validation has none of bee; test has none of bee"):
        data.setup("fit")
    assert data.train.labels.tolist().count(1) == 2


def test_classes_of_which_no_picture_is_left_for_training_are_refused(tmp_path):
    fill(tmp_path, {f"class {number}": 1 for number in range(10)})
    with pytest.warns(UserWarning, match="train has none of"), pytest.raises(InputError, match="are held out; add"):
        ImageFolder(str(tmp_path), image=8).setup("fit")


def test_a_class_that_links_to_another_is_refused(tmp_path):
    (fill(tmp_path, {"cat": 5}) / "dog").symlink_to("cat")
    with pytest.raises(InputError, match=r"dog/0\.png is listed twice, first in .*cat$"):
        ImageFolder(str(tmp_path), image=8).setup("fit")


@pytest.mark.parametrize("storage", ["memory", "files"])
def test_broken_pictures_of_all_splits_are_named_at_once_and_the_rest_is_used(tmp_path, storage):
    made = partial(ImageFolder, str(fill(tmp_path, {"ape": 40, "bee": 40})), image=8, storage=storage, workers=0)
    splits = made().splits
    broken = [splits["train"][3].file, splits["train"][5].file, splits["test"][2].file]
    for file in broken:
        file.write_bytes(file.read_bytes()[:40] if file == broken[2] else b"")  # its header is whole
    with pytest.raises(InputError) as caught:
        made().setup("fit")
    assert all(str(caught.value).count(str(file)) == 1 for file in broken) and "--data.broken" in str(caught.value)
    data = made(broken=0.2)
    with pytest.warns(UserWarning, match="are left out") as warned:
        data.setup("fit")
    assert len(warned) == 2 and [len(data.read(split)) for split in ("train", "validation", "test")] == [62, 8, 7]


def test_a_set_too_large_for_memory_is_read_batch_by_batch(tmp_path, monkeypatch):
    folder = str(fill(tmp_path, {"ape": 15, "bee": 15}))
    whole = ImageFolder(folder, image=8, batch=5, workers=0)
    whole.setup("fit")
    monkeypatch.setattr(image_folder, "IN_MEMORY_BYTES", 1)
    streamed = ImageFolder(folder, image=8, batch=5, workers=0)
    streamed.setup("fit")
    assert isinstance(streamed.train.inputs, FileRows)
    for one, other in zip(whole.train_dataloader(), streamed.train_dataloader(), strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1]) and one[2] == other[2]


def test_the_network_is_built_for_the_size_of_the_images(tmp_path):
    data = ["--data=vitspeech.ImageFolder", f"--data.root={fill(tmp_path, {'ape': 5, 'bee': 5})}", "--data.image=24"]
    network = TrainingCLI(["--config=shapes/vit", *data]).model.network
    assert network.patches.image == 24 and network(torch.randn(2, 3, 24, 24)).shape == (2, 2)
    with pytest.raises(
        InputError, match=r"^model\.network\.image=32, but the images of the data have 24 pixels; leave"
    ):
        TrainingCLI(["--config=shapes/vit", *data, "--model.network.image=32"])
