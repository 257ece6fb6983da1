"""What is replaced outside a window, and accuracy against its radius: models that need known pixels, curves by hand.

Shapes: B batch, C channels, R rows, W columns: different primes; K classes.
"""

import pytest
import torch
from torchvision.transforms.v2.functional import gaussian_blur

from vitspeech.metrics.intervals import wilson_interval
from vitspeech.receptive.occlusion import REPLACEMENTS, VisibleAccuracy, WindowedInputs, visible_accuracy

COUNT, CLASSES = 53, 5
B, C = 3, 2
SIDES = [(7, 7), (8, 8), (11, 5), (5, 13), (1, 1)]


def occlude(inputs, radius, replacement, *, seed=0, **options):
    """Everything outside one window replaced."""
    random = torch.Generator().manual_seed(seed)
    return WindowedInputs(inputs, random=random, **options).occlude(radius, replacement)


def pictures(rows, columns, dtype=torch.float32):
    return torch.randn(B, C, rows, columns, generator=torch.Generator().manual_seed(7), dtype=dtype) + 3


def inside(rows, columns, radius, row=None, column=None):
    """One place after another, from the definition."""
    row, column = (rows - 1) / 2 if row is None else row, (columns - 1) / 2 if column is None else column
    return torch.tensor([[abs(r - row) <= radius and abs(c - column) <= radius for c in range(columns)]
                         for r in range(rows)])  # fmt: skip


def blurred(inputs):
    """torchvision's blur, divided by that of a picture of ones, so that what is beyond the border has no weight."""
    rows, columns = inputs.shape[2:]

    def blur(picture):
        wide = torch.nn.functional.pad(picture, (columns, columns, rows, rows))
        size, sigma = [2 * columns - 1, 2 * rows - 1], [columns / 8, rows / 8]
        return gaussian_blur(wide, size, sigma)[..., rows : 2 * rows, columns : 2 * columns]

    return blur(inputs) / blur(torch.ones_like(inputs))


@pytest.mark.parametrize("radius", [0.4, 0.5, 1, 2, 2.5, 4])
@pytest.mark.parametrize("rows, columns", SIDES)
def test_inside_is_the_input_and_outside_the_replacement(rows, columns, radius):
    inputs = pictures(rows, columns, torch.float64)
    visible = inside(rows, columns, radius)
    assert torch.equal(occlude(inputs, radius, "mean"), inputs * visible)
    found = occlude(inputs, radius, "blur")
    assert torch.equal(found[..., visible], inputs[..., visible])
    torch.testing.assert_close(found[..., ~visible], blurred(inputs)[..., ~visible])


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("rows, columns", SIDES)
def test_radius_zero_shows_nothing_not_even_the_center(rows, columns, replacement):
    inputs = pictures(rows, columns)
    without = occlude(inputs, 0, replacement)
    wanted = {"mean": torch.zeros_like(inputs), "blur": blurred(inputs), "shuffle": without}[replacement]
    torch.testing.assert_close(without, wanted)
    if rows * columns > 1:
        middle = inside(rows, columns, 0.5)
        assert not torch.equal(without[..., middle], inputs[..., middle])


@pytest.mark.parametrize("radius", [0, 1, 2.5, 3])
@pytest.mark.parametrize("rows, columns", [(7, 7), (8, 8), (11, 5), (5, 13)])
def test_shuffle_reorders_whole_pixels_outside_and_each_picture_in_its_own_way(rows, columns, radius):
    inputs = pictures(rows, columns)
    inputs[1] = inputs[0]
    found = occlude(inputs, radius, "shuffle")
    visible = inside(rows, columns, radius) & (radius > 0)
    assert torch.equal(found[..., visible], inputs[..., visible])
    if visible.all():
        return
    for before, after in zip(inputs[..., ~visible], found[..., ~visible], strict=True):
        assert not torch.equal(before, after)
        assert sorted(before.T.tolist()) == sorted(after.T.tolist())
    assert not torch.equal(found[0], found[1])


def test_every_order_of_the_outside_comes_equally_often():
    # Of five frames the middle one stays: four remain, 24 orders, 4800 draws: 200 each with deviation 13.8.
    found = occlude(torch.arange(5.0).reshape(1, 1, 5, 1).expand(4800, -1, -1, -1), 0.5, "shuffle", axes=(2,))
    orders, counts = found.flatten(1).unique(dim=0, return_counts=True)
    assert len(orders) == 24 and (orders[:, 2] == 2).all()
    assert counts.min() > 200 - 5 * 13.8 and counts.max() < 200 + 5 * 13.8


@pytest.mark.parametrize("centers", [[0, 5, 10], [0.5, 9.5, 3.25]])
@pytest.mark.parametrize("radius", [0.25, 1, 4, 10])
def test_windows_in_time_follow_their_centers_and_show_every_bin(centers, radius):
    frames = pictures(11, 5)
    places = torch.tensor(centers)
    visible = torch.stack([inside(11, 5, radius, row=center, column=2)[:, 2] for center in centers])
    assert torch.equal(occlude(frames, radius, "mean", centers=places, axes=(2,)), frames * visible[:, None, :, None])
    found = occlude(frames, radius, "blur", centers=places, axes=(2,))
    torch.testing.assert_close(found, torch.where(visible[:, None, :, None], frames, blurred(frames)))


def marked(row, column, *, rows=13, columns=11):
    """Pictures whose class stands in one pixel, one channel for each class, above a random ground; and the classes."""
    random = torch.Generator().manual_seed(3)
    labels = torch.randint(CLASSES, (COUNT,), generator=random)
    inputs = torch.rand(COUNT, CLASSES, rows, columns, generator=random) - 9
    inputs[range(COUNT), labels, row, column] = 9.0
    return inputs, labels


def reads(row, column):
    """A model that answers what stands in one pixel; where nothing does (0 and the ground), class 0."""
    return lambda inputs: torch.cat((torch.ones(len(inputs), 1), inputs[:, 1:, row, column]), 1)


def share_of_class_zero(labels):
    return (labels == 0).sum().item() / COUNT


@pytest.mark.parametrize("row, column, distance", [(6, 8, 3), (3, 5, 3), (2, 2, 4), (0, 5, 6), (12, 10, 6)])
def test_accuracy_drops_where_the_window_passes_the_pixel_that_the_model_needs(row, column, distance):
    inputs, labels = marked(row, column)
    chance = share_of_class_zero(labels)
    found = visible_accuracy(reads(row, column), inputs, labels, range(1, 6))
    assert found.accuracy["mean"] == [chance if radius < distance else 1.0 for radius in range(7)]
    assert found.radii == [*range(7)]
    assert found.keeps(1)["mean"].value == distance
    assert distance - 1 < found.keeps(0.9)["mean"].value < distance
    assert found.keeps(0.9)["mean"].value == pytest.approx(distance - 1 + (0.9 - chance) / (1 - chance))


def test_windows_in_time_are_centered_at_each_clips_word():
    random = torch.Generator().manual_seed(5)
    labels = torch.randint(CLASSES, (COUNT,), generator=random)
    words = torch.randint(17, (COUNT,), generator=random)
    words[:2] = torch.tensor([0, 16])
    frames = torch.zeros(COUNT, 1, 17, CLASSES)
    frames[range(COUNT), 0, words, labels] = 1.0
    found = visible_accuracy(lambda shown: shown.amax((1, 2)), frames, labels, [1], centers=words, axes=(2,), batch=7)
    assert found.accuracy["mean"][1] == 1 and found.accuracy["mean"][0] == share_of_class_zero(labels)
    assert found.radii == [0, 1, 16]
    away = visible_accuracy(lambda shown: shown.amax((1, 2)), frames, labels, [1], axes=(2,), batch=7)
    near = ((words - 8).abs() <= 1) | (labels == 0)
    assert away.accuracy["mean"][1] == near.sum().item() / COUNT
    assert away.radii == [0, 1, 8]


def network(rows, columns):
    """A random linear map: sensitive to every pixel."""
    weights = torch.randn(2 * rows * columns, CLASSES, generator=torch.Generator().manual_seed(11))
    return lambda inputs: inputs.flatten(1) @ weights


def random_pictures():
    random = torch.Generator().manual_seed(2)
    return torch.randn(COUNT, 2, 7, 8, generator=random), torch.randint(CLASSES, (COUNT,), generator=random)


@pytest.mark.parametrize("batch", [1, 7, 53, 100])
def test_accuracy_is_that_of_masked_inputs_whatever_the_batch(batch):
    inputs, labels = random_pictures()
    answer = network(7, 8)
    found = visible_accuracy(answer, inputs, labels, [0.5, 1.5, 2.5], batch=batch)
    assert found.radii == [0, 0.5, 1.5, 2.5, 3.5]
    for name in REPLACEMENTS:
        for radius, share in zip(found.radii, found.accuracy[name], strict=True):
            given = answer(occlude(inputs, radius, name)).argmax(1)
            assert share == (given == labels).sum().item() / COUNT


def test_without_labels_it_is_agreement_with_the_answers_to_whole_inputs():
    inputs, _ = random_pictures()
    answer = network(7, 8)
    found = visible_accuracy(answer, inputs, None, [2.5], batch=7)
    assert found.whole == 1 and found.accuracy.keys() == set(REPLACEMENTS)
    assert found.quantity == "agreement" and found.whole_interval == (1, 1)  # by construction, not estimated
    labeled = visible_accuracy(answer, inputs, answer(inputs).argmax(1), [2.5], batch=7)
    assert found.radii == labeled.radii and found.accuracy == labeled.accuracy
    assert labeled.quantity == "accuracy" and labeled.whole_interval == wilson_interval(1, COUNT)
    for name, curve in found.interval.items():
        assert curve[:-1] == labeled.interval[name][:-1] and curve[-1] == (1, 1)
    assert all(torch.equal(rows, labeled.correct[name]) for name, rows in found.correct.items())
    assert 0 < found.accuracy["blur"][1] < 1


def answers(curve):
    """Which of 100 inputs are answered right at each radius, for these accuracies."""
    return torch.arange(100) < torch.tensor([[round(100 * accuracy)] for accuracy in curve])


@pytest.mark.parametrize(
    "curve, share, radius",
    [
        # Whole is 0.8, so 0.9 asks for 0.72 and 0.5 for 0.4.
        ([0.1, 0.2, 0.6, 0.7, 0.8], 0.9, 6 + 4 * 0.2),
        ([0.1, 0.2, 0.6, 0.7, 0.8], 0.5, 1 + 2 * 0.5),
        ([0.1, 0.76, 0.6, 0.8, 0.8], 0.9, 3 + 3 * 0.6),  # above, below, and above again: the later crossing
        ([0.1, 0.9, 0.9, 0.9, 0.8], 0.9, 0.62 / 0.8),  # better than whole on the way
        ([0.1, 0.76, 0.72, 0.8, 0.8], 0.9, 0.62 / 0.66),  # touching is staying
        ([0.1, 0.8, 0.8, 0.7, 0.8], 1, 10),
        ([0.8, 0.1, 0.1, 0.1, 0.8], 0.9, 6 + 4 * 0.62 / 0.7),
        ([0.75, 0.73, 0.8, 0.8, 0.8], 0.9, 0),  # the replacement alone is enough
    ],
)
def test_the_radius_that_keeps_a_share_is_where_the_curve_stays_above_it(curve, share, radius):
    found = VisibleAccuracy([0, 1, 3, 6, 10], {"mean": answers(curve), "blur": answers([0.8] * 5)})
    assert found.accuracy == {"mean": curve, "blur": [0.8] * 5}
    assert {name: kept.value for name, kept in found.keeps(share).items()} == pytest.approx({"mean": radius, "blur": 0})


def test_intervals_of_the_needed_radius_contain_the_populations_as_often():
    # An input is answered right from some radius on; 8 % never are.
    radii, chances = [0.0, 1, 2, 3, 4, 6, 9], torch.tensor([0.1, 0.1, 0.15, 0.25, 0.2, 0.1, 0.02, 0.08])
    curve = chances[:7].cumsum(0)
    threshold = 0.9 * float(curve[-1])
    last = int((curve < threshold).sum()) - 1
    ratio = (threshold - float(curve[last])) / float(curve[last + 1] - curve[last])
    truth = radii[last] + ratio * (radii[last + 1] - radii[last])
    generator, draws, contained = torch.Generator().manual_seed(3), 300, 0
    for _ in range(draws):
        needed = chances.multinomial(500, replacement=True, generator=generator)
        kept = VisibleAccuracy(radii, {"mean": needed <= torch.arange(7)[:, None]}).keeps()["mean"]
        assert kept.low <= kept.value <= kept.high
        contained += kept.low <= truth <= kept.high
    assert 0.9 <= contained / draws <= 0.98
