"""The pictures that the page offers besides the samples: test pictures of CIFAR-10, where the data set is."""

import os

import numpy
import pytest
from PIL import Image

from vitspeech.data.images.cifar import LABELS, Cifar
from vitspeech.errors import InputError
from vitspeech.export.demo import write_test_pictures

WORDS = ["left", "right"]


def test_without_the_data_set_there_are_none(tmp_path, monkeypatch):
    monkeypatch.delenv("VITSPEECH_DATA", raising=False)
    assert write_test_pictures(tmp_path, [LABELS[10]], None) == []
    monkeypatch.setenv("VITSPEECH_DATA", str(tmp_path))  # has other data sets
    assert write_test_pictures(tmp_path, [LABELS[10]], None) == []
    assert list(tmp_path.iterdir()) == []


def test_a_data_set_that_is_asked_for_must_be_there_and_of_use(tmp_path):
    with pytest.raises(FileNotFoundError, match="CIFAR-10 is missing"):
        write_test_pictures(tmp_path, [WORDS, LABELS[10]], tmp_path)
    with pytest.raises(InputError, match="no model has the labels of CIFAR-10"):
        write_test_pictures(tmp_path, [WORDS, LABELS[10][::-1]], tmp_path)


@pytest.mark.data
def test_one_test_picture_of_each_label(tmp_path):
    files = write_test_pictures(tmp_path, [WORDS, LABELS[10]], None)
    test = Cifar(root=os.environ["VITSPEECH_DATA"]).official_split("test")
    assert [file.split("-")[0] for file in files] == LABELS[10]
    for label, file in enumerate(files):
        number = int(file.removesuffix(".png").split("-")[1])
        assert test.targets[number] == label
        assert (numpy.asarray(Image.open(tmp_path / file)) == test.data[number]).all()
