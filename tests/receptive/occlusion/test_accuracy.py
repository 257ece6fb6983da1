"""Accuracy against the visible radius: hand-made models that need known pixels, and curves worked by hand.

Shapes: B batch, C channels, R rows, W columns, K classes.
"""

import pytest
import torch
from vitspeech.receptive.occlusion.accuracy import VisibleAccuracy, visible_accuracy
from vitspeech.receptive.occlusion.windows import REPLACEMENTS, occlude

from vitspeech.metrics.intervals import wilson_interval

COUNT, CLASSES = 53, 5


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


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_a_model_that_reads_the_center_is_as_good_at_the_smallest_radius(replacement):
    inputs, labels = marked(6, 5)
    found = visible_accuracy(reads(6, 5), inputs, labels, [0.5, 2, 4], replacements=[replacement])
    assert found.radii == [0, 0.5, 2, 4, 6]
    assert found.accuracy[replacement][1:] == [1, 1, 1, 1] and found.whole == 1
    assert found.nothing[replacement] < 0.5


@pytest.mark.parametrize("row, column, distance", [(6, 8, 3), (3, 5, 3), (2, 2, 4), (0, 5, 6), (12, 10, 6)])
def test_accuracy_drops_where_the_window_passes_the_pixel_that_the_model_needs(row, column, distance):
    inputs, labels = marked(row, column)
    chance = share_of_class_zero(labels)
    found = visible_accuracy(reads(row, column), inputs, labels, range(1, 6), replacements=["mean"])
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
    assert found.accuracy["mean"][1] == 1 and found.nothing["mean"] == share_of_class_zero(labels)
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
    assert found.whole == 1 and found.nothing.keys() == set(REPLACEMENTS)
    assert found.quantity == "agreement" and found.whole_interval == (1, 1)  # by construction, not estimated
    labeled = visible_accuracy(answer, inputs, answer(inputs).argmax(1), [2.5], batch=7)
    assert found.radii == labeled.radii and found.accuracy == labeled.accuracy
    assert labeled.quantity == "accuracy" and labeled.whole_interval == wilson_interval(1, COUNT)
    for name, curve in found.interval.items():
        assert curve[:-1] == labeled.interval[name][:-1] and curve[-1] == (1, 1)
    assert all(torch.equal(rows, labeled.correct[name]) for name, rows in found.correct.items())
    assert 0 < found.accuracy["blur"][1] < 1


def test_radii_that_show_everything_are_left_to_the_last():
    inputs, labels = random_pictures()
    found = visible_accuracy(network(7, 8), inputs, labels, [0, 3, 3.5, 4, 90])
    assert found.radii == [0, 3, 3.5]


def test_the_curve_has_its_intervals():
    inputs, labels = random_pictures()
    found = visible_accuracy(network(7, 8), inputs, labels, [2.5])
    assert found.count == COUNT and found.whole_interval == wilson_interval(found.whole, COUNT)
    for name, curve in found.accuracy.items():
        assert found.interval[name] == [wilson_interval(share, COUNT) for share in curve]
        assert curve[0] == found.nothing[name] and curve[-1] == found.whole


def test_progress_is_told_of_every_input_and_no_gradient_is_kept():
    inputs, labels = random_pictures()
    told, answers, answer = [], [], network(7, 8)
    weights = torch.ones(CLASSES, requires_grad=True)

    def watched(shown):
        answers.append(answer(shown) * weights)
        return answers[-1]

    visible_accuracy(watched, inputs, labels, [2], batch=25, progress=told.append)
    assert told == [25, 25, 3]
    assert len(answers) == 3 * (1 + 2 * len(REPLACEMENTS)) and not any(found.requires_grad for found in answers)


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


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_named(share):
    with pytest.raises(ValueError, match=f"fraction={share} is not above 0 and at most 1"):
        VisibleAccuracy([0, 1], {"mean": answers([0.1, 1])}).keeps(share)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"radii": [-1, 2]}, r"radii \[-1, 2\] are not all 0 or above"),
        ({"radii": [float("nan")]}, r"radii \[nan\] are not all 0 or above"),
        ({"radii": [1, 2, 2]}, r"radii \[1, 2, 2\] do not increase"),
        ({"radii": [3, 2]}, r"radii \[3, 2\] do not increase"),
        ({"labels": torch.zeros(52)}, r"labels \(52,\) do not fit 53 inputs"),
        ({"labels": torch.zeros(53, 5)}, r"labels \(53, 5\) do not fit 53 inputs"),
        ({"inputs": torch.zeros(1, 2, 7, 8), "labels": None}, "1 inputs; an accuracy needs at least two"),
        ({"inputs": torch.zeros(0, 2, 7, 8), "labels": None}, "0 inputs; an accuracy needs at least two"),
        ({"replacements": ["mean", "noise"]}, r"replacements \['mean', 'noise'\] are not in mean, blur, shuffle"),
        ({"replacements": []}, r"replacements \[\] are not in"),
        ({"batch": 0}, "batch=0 is below 1"),
        ({"model": lambda shown: shown.sum(1)}, r"the model returns \(53, 7, 8\) for 53 inputs"),
        ({"model": lambda shown: shown[:2, :, 0, 0]}, r"the model returns \(2, 2\) for 53 inputs"),
        ({"centers": torch.zeros(52, 2)}, r"centers \(52, 2\) do not fit 53 inputs"),
    ],
)
def test_bad_input_is_named(arguments, message):
    inputs, labels = random_pictures()
    arguments = {"model": network(7, 8), "inputs": inputs, "labels": labels, "radii": [1]} | arguments
    with pytest.raises(ValueError, match=message):
        visible_accuracy(**arguments)


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
