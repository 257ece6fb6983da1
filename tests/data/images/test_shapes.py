"""The embedded set: the same again for the same seed, and not to be had by colors or places."""

import torch

from vitspeech.data.images.shapes import Shapes, coverage


def test_the_same_number_draws_the_same_pictures():
    one, same, other = Shapes(60), Shapes(60), Shapes(60, drawn_from=1)
    for data in (one, same, other):
        data.setup("fit")
    assert torch.equal(one.train.inputs, same.train.inputs)
    assert not torch.equal(one.train.inputs, other.train.inputs)
    assert not torch.equal(one.train.inputs[:12], one.validation.inputs)
    assert not torch.equal(one.read("test").inputs, one.validation.inputs)
    assert not torch.equal(one.read("test").inputs, other.validation.inputs)


def test_pictures_have_the_promised_form():
    data = Shapes(500)
    data.setup("fit")
    assert data.train.inputs.shape == (500, 3, 32, 32) and data.train.inputs.dtype == torch.uint8
    assert len(data.read("test")) == 100
    assert set(data.train.labels.tolist()) == set(range(10))


def test_every_shape_covers_a_different_area():
    angle, radius = torch.zeros(10), torch.full((10,), 20.0)
    masks = coverage(torch.arange(10), torch.full((10, 2), 32.0), radius, angle, 64)
    assert ((masks >= 0) & (masks <= 1)).all()
    areas = masks.sum((1, 2)) / 20**2
    assert areas.min() > 0.8 and areas.max() < 3.2
    overlap = torch.einsum("ahw,bhw->ab", masks, masks) / torch.maximum(areas[:, None], areas[None]) / 20**2
    assert overlap.fill_diagonal_(0).max() < 0.93


def test_a_linear_model_stays_under_forty_per_cent():
    data = Shapes(5000)
    data.setup("fit")
    train, test = data.train, data.read("test")
    flat = [data.normalize(images.inputs).flatten(1) for images in (train, test)]
    targets = torch.nn.functional.one_hot(train.labels, 10).float()
    # Ridge regression: the best of several strengths, chosen in the linear model's favor.
    products, aims, best = flat[0].T @ flat[0], flat[0].T @ targets, 0.0
    for ridge in (1e3, 1e4, 1e5):
        weights = torch.cholesky_solve(aims, torch.linalg.cholesky(products + ridge * torch.eye(len(products))))
        best = max(best, ((flat[1] @ weights).argmax(1) == test.labels).float().mean().item())
    assert 0.1 < best < 0.4
