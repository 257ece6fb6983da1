"""Generated pictures: the same again for the same seed, and labels that neither color nor place nor one mark tells."""

from functools import partial

import pytest
import torch
from torch import nn

from vitspeech.data.images import shapes
from vitspeech.data.images.shapes import Marks, Shapes, TwoMarks, coverage, draw_marks, place_marks

SIDE = 32


@pytest.mark.parametrize("made", [partial(Shapes, 60), partial(TwoMarks, 7, 60)])
def test_the_same_number_draws_the_same_pictures(made, monkeypatch):
    monkeypatch.setattr(shapes, "EVALUATION_COUNT", 100)
    one, same, other = made(), made(), made(drawn_from=1)
    for data in (one, same, other):
        data.setup("fit")
    assert torch.equal(one.train.inputs, same.train.inputs) and torch.equal(one.train.labels, same.train.labels)
    assert not torch.equal(one.train.inputs, other.train.inputs)
    assert not torch.equal(one.train.inputs[:12], one.validation.inputs[:12])
    assert not torch.equal(one.read("test").inputs, one.validation.inputs)
    assert not torch.equal(one.read("test").inputs, other.validation.inputs)
    assert one.train.inputs.shape == (60, 3, 32, 32) and one.train.inputs.dtype == torch.uint8


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


def marks_of(count: int, distance: float, seed: int = 0) -> Marks:
    return place_marks(count, distance, SIDE, torch.Generator().manual_seed(seed))


def pictures(marks: Marks, seed: int = 1, **shown: bool) -> torch.Tensor:
    return draw_marks(marks, SIDE, torch.Generator().manual_seed(seed), **shown)


def ink(images: torch.Tensor) -> torch.Tensor:
    """How far each 2×2 pixels are from their picture's mean color, whatever it is: (B, 3, 32, 32) -> (B, 256)."""
    images = images / 255
    off = (images - images.mean((2, 3), keepdim=True)).norm(dim=1, keepdim=True)
    return nn.functional.avg_pool2d(off, 2).flatten(1).double()


def held_out_accuracy(features: torch.Tensor, labels: torch.Tensor, ridge: float) -> float:
    """How often a ridge regression, fitted on the first two thirds, is right on the rest."""
    cut = 2 * len(labels) // 3
    features = features - features[:cut].mean(0)
    train, test, signs = features[:cut], features[cut:], 2.0 * labels - 1
    gram = train.T @ train + ridge * torch.eye(train.shape[1], dtype=train.dtype)
    weights = torch.linalg.solve(gram, train.T @ signs[:cut].to(train.dtype))
    return ((test @ weights > 0) == (signs[cut:] > 0)).double().mean().item()


def test_the_dot_is_at_the_distance_and_stays_in_the_picture():
    for distance in (5, 9.5, 13):
        marks = marks_of(3001, distance)
        assert torch.allclose((marks.dot - marks.crescent).norm(dim=1), torch.tensor(float(distance)), atol=1e-4)
        assert ((marks.crescent - SIDE / 2).abs() <= 1).all()
        assert marks.dot.min() >= 2 and marks.dot.max() <= SIDE - 2


def test_comparing_direction_and_place_is_always_right():
    marks = marks_of(3001, 11)
    down, across = (marks.dot - marks.crescent).T
    bearing = torch.atan2(down, across)
    agreement = torch.cos(bearing - marks.angle)
    assert torch.equal((agreement > 0).long(), marks.labels)
    assert torch.allclose(agreement.abs(), torch.ones(3001), atol=1e-5)


def test_direction_place_and_label_are_drawn_independently():
    marks = marks_of(40_000, 9)
    signs = 2.0 * marks.labels - 1
    down, across = (marks.dot - marks.crescent).T / 9
    facts = [marks.angle.sin(), marks.angle.cos(), down, across, *(marks.crescent.T - 16)]
    table = torch.stack([signs, *facts, *(facts[i] * facts[j] for i, j in ((0, 0), (0, 1), (2, 2), (2, 3)))])
    # 40,000 draws: a correlation's standard error is 0.005. Signs with direction, with place, with the crescent's.
    assert torch.corrcoef(table)[0, 1:].abs().max() < 0.025
    assert torch.corrcoef(table)[1:3, 3:5].abs().max() < 0.025
    # And what the label is: the product of both.
    assert torch.allclose(facts[0] * down + facts[1] * across, signs, atol=1e-5)


@pytest.mark.parametrize("shown", [{"dot": False}, {"crescent": False}, {}], ids=["crescent", "dot", "both"])
def test_a_linear_model_is_at_chance(shown):
    """Whatever it is given: one mark, or both added up. Of 1,000 pictures, chance lies within ±0.05 (three errors)."""
    marks = marks_of(3000, 11)
    seen = ink(pictures(marks, **shown))
    for ridge in (1.0, 30.0, 1000.0):
        assert abs(held_out_accuracy(seen, marks.labels, ridge) - 0.5) < 0.05


def test_only_the_dot_moves_with_the_distance():
    near, far = pictures(marks_of(13, 5)).int(), pictures(marks_of(13, 13)).int()
    changed = (near != far).any(1)
    pixel = torch.arange(32) + 0.5
    for moved, one, other in zip(changed, marks_of(13, 5).dot, marks_of(13, 13).dot, strict=True):
        away = [((pixel[:, None] - place[0]) ** 2 + (pixel - place[1]) ** 2).sqrt() for place in (one, other)]
        assert moved.any() and torch.minimum(*away)[moved].max() < 2.5
    without = [pictures(marks_of(13, distance), dot=False) for distance in (5, 13)]
    assert torch.equal(*without)


def narrow_network(width: int = 24) -> nn.Module:
    """Convolutions whose outputs each see 8×8 px: 3, halved 4, and two steps of 2 px more; then the largest anywhere.

    Without padding, no output knows its place. At 13 px the crescent's ink ends 8.3 px from the dot's.
    """

    def layer(narrow: int, wide: int, kernel: int) -> list[nn.Module]:
        return [nn.Conv2d(narrow, wide, kernel, bias=False), nn.BatchNorm2d(wide), nn.GELU()]

    convolutions = [*layer(3, width, 3), nn.MaxPool2d(2), *layer(width, 2 * width, 3), *layer(2 * width, 2 * width, 1)]
    return nn.Sequential(*convolutions, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(2 * width, 2))


def trained_accuracy(distance: float, steps: int = 300) -> float:
    """Of the narrow network, on pictures that it has not seen."""
    torch.manual_seed(0)
    data, network = TwoMarks(distance, 3000), narrow_network().to(memory_format=torch.channels_last)
    data.setup("fit")
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    for _ in range(steps):
        chosen = torch.randint(0, 3000, (64,))
        inputs, labels = data.augment_batch(data.train.inputs[chosen], data.train.labels[chosen])
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(inputs.contiguous(memory_format=torch.channels_last))
        loss = nn.functional.cross_entropy(logits.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    test, network = data.read("test"), network.eval()
    with torch.inference_mode():
        return (network(data.normalize(test.inputs)).argmax(1) == test.labels).float().mean().item()


@pytest.mark.slow
def test_a_field_of_eight_pixels_relates_marks_that_are_near_and_not_those_that_are_far():
    """2,000 test pictures: chance lies within ±0.035 (three errors)."""
    assert trained_accuracy(5) > 0.85
    assert abs(trained_accuracy(13) - 0.5) < 0.035
