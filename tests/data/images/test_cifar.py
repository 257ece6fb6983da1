"""CIFAR: the real files if they exist, and a clear message if they do not."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from vitspeech.data.images.cifar import Cifar
from vitspeech.data.module import default_root
from vitspeech.errors import InputError


def test_a_missing_set_is_reported_with_the_search_path_and_how_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path}/cifar-10-batches-py.*--data.download true"):
        Cifar(10, str(tmp_path)).prepare_data()


class Reader:
    """In place of torchvision's `CIFAR10`: its download is an empty folder, and takes a while."""

    base_folder, url = "cifar-10-batches-py", "http://example.org/cifar.tar.gz"
    downloads = 0

    def __init__(self, root, train=True, download=False):
        folder = Path(root, self.base_folder)
        if download and not folder.is_dir():
            type(self).downloads += 1
            time.sleep(0.2)
            self.unpack(folder)
        if not folder.is_dir():
            raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")

    def unpack(self, folder):
        folder.mkdir()


class BrokenReader(Reader):
    """Downloads what is not the published file."""

    def unpack(self, folder):
        raise RuntimeError("File not found or corrupted.")


def cifar(root: Path, reader: type) -> Cifar:
    data = Cifar(10, str(root), download=True)
    data.reader = reader
    return data


def test_of_two_processes_one_downloads_and_the_other_waits(tmp_path):
    with ThreadPoolExecutor() as threads:
        list(threads.map(Cifar.prepare_data, [cifar(tmp_path / "new", Reader) for _ in range(2)]))
    assert Reader.downloads == 1 and [file.name for file in (tmp_path / "new").iterdir()] == [Reader.base_folder]


def test_a_broken_download_is_reported_in_one_line(tmp_path):
    message = (
        rf"^{tmp_path}/cifar-10-batches-py: .*cifar.tar.gz failed \(File not found or corrupted\); start again, or"
    )
    with pytest.raises(InputError, match=message):
        cifar(tmp_path, BrokenReader).prepare_data()


@pytest.mark.data
def test_the_three_sets_are_the_official_images_without_overlap():
    data = Cifar(10, validation=3000)
    data.setup("fit")
    test = data.read("test")
    assert (len(data.train), len(data.validation), len(test)) == (47_000, 3000, 10_000)
    assert data.labels == data.official_split("test").classes
    assert torch.bincount(test.labels).tolist() == [1000] * 10
    both = torch.cat((data.train.labels, data.validation.labels))
    assert torch.bincount(both).tolist() == [5000] * 10


@pytest.mark.data
def test_normalized_training_images_have_mean_zero_and_variance_one():
    data = Cifar(10)
    data.setup("fit")
    pixels = data.normalize(data.train.inputs[:5000])
    assert pixels.mean((0, 2, 3)).abs().max() < 0.02 and (pixels.std((0, 2, 3)) - 1).abs().max() < 0.02


@pytest.mark.data
def test_an_altered_file_is_refused(tmp_path):
    folder = "cifar-10-batches-py"
    shutil.copytree(Path(default_root(None)) / folder, tmp_path / folder)
    with (tmp_path / folder / "data_batch_3").open("r+b") as file:
        file.seek(1000)
        file.write(b"altered")
    with pytest.raises(FileNotFoundError, match="MD5"):
        Cifar(10, str(tmp_path)).prepare_data()
