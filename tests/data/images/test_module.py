"""The base class of image data sets: normalization."""

import numpy
import torch

from vitspeech.data.images.reading import normalize


def test_normalize_is_the_textbook_formula():
    images = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8)
    mean, std = (0.1, 0.5, 0.7), (0.2, 0.3, 0.4)
    expected = (images.numpy() / 255 - numpy.reshape(mean, (3, 1, 1))) / numpy.reshape(std, (3, 1, 1))
    assert torch.allclose(normalize(images, mean, std).double(), torch.from_numpy(expected), atol=1e-5)
