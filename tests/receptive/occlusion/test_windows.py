"""What is replaced outside a window, and that what is inside stays as it is.

Shapes: B batch, C channels, R rows, W columns: different primes.
"""

import pytest
import torch
from torchvision.transforms.v2.functional import gaussian_blur
from vitspeech.receptive.occlusion.windows import REPLACEMENTS, WindowedInputs, occlude

B, C = 3, 2
SIDES = [(7, 7), (8, 8), (11, 5), (5, 13), (1, 1)]


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


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("rows, columns", SIDES)
def test_half_the_longer_side_shows_everything(rows, columns, replacement):
    inputs = pictures(rows, columns)
    assert torch.equal(occlude(inputs, max(rows, columns) / 2, replacement), inputs)


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


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    inputs = pictures(7, 11)
    first, again, other = (occlude(inputs, 2, "shuffle", seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.parametrize("centers", [[0, 5, 10], [0.5, 9.5, 3.25]])
@pytest.mark.parametrize("radius", [0.25, 1, 4, 10])
def test_windows_in_time_follow_their_centers_and_show_every_bin(centers, radius):
    frames = pictures(11, 5)
    places = torch.tensor(centers)
    visible = torch.stack([inside(11, 5, radius, row=center, column=2)[:, 2] for center in centers])
    assert torch.equal(occlude(frames, radius, "mean", centers=places, axes=(2,)), frames * visible[:, None, :, None])
    found = occlude(frames, radius, "blur", centers=places, axes=(2,))
    torch.testing.assert_close(found, torch.where(visible[:, None, :, None], frames, blurred(frames)))


def test_shuffle_in_time_moves_frames_as_wholes():
    frames = pictures(11, 5)
    centers = torch.tensor([0, 5, 10])
    found = occlude(frames, 2, "shuffle", centers=centers, axes=(2,))
    for item, center in enumerate(centers.tolist()):
        visible = inside(11, 5, 2, row=center, column=2)[:, 2]
        assert torch.equal(found[item][:, visible], frames[item][:, visible])
        before, after = (clip[item][:, ~visible].transpose(0, 1) for clip in (frames, found))
        assert not torch.equal(before, after)
        assert sorted(before.flatten(1).tolist()) == sorted(after.flatten(1).tolist())


def test_windows_of_pictures_follow_their_centers_in_rows_and_columns():
    inputs = pictures(11, 5)
    centers = [(0, 4), (10, 0.5), (3, 2)]
    visible = torch.stack([inside(11, 5, 1.5, *center) for center in centers])
    assert torch.equal(occlude(inputs, 1.5, "mean", centers=torch.tensor(centers)), inputs * visible[:, None])


def test_consecutive_windows_are_independent():
    inputs = pictures(7, 11)
    windows = WindowedInputs(inputs)
    for replacement in REPLACEMENTS:
        for radius in (3, 0, 1):
            assert torch.equal(windows.occlude(radius, replacement), occlude(inputs, radius, replacement))


def test_inputs_are_not_modified():
    inputs = pictures(7, 5)
    before = inputs.clone()
    for replacement in REPLACEMENTS:
        occlude(inputs, 1, replacement)
    assert torch.equal(inputs, before)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"radius": -1}, "radius=-1 is negative"),
        ({"radius": float("nan")}, "radius=nan"),
        ({"replacement": "noise"}, "replacement='noise' is unknown; known: mean, blur, shuffle"),
        ({"axes": (3,)}, r"axes=\(3,\)"),
        ({"inputs": torch.zeros(3, 2, 7, 5, dtype=torch.uint8)}, r"torch.uint8 \(3, 2, 7, 5\)"),
        ({"inputs": torch.zeros(3, 7, 5)}, r"torch.float32 \(3, 7, 5\)"),
        ({"centers": torch.zeros(2, 2)}, r"centers \(2, 2\) do not fit 3 inputs and axes \(2, 3\)"),
        ({"centers": torch.zeros(3)}, r"centers \(3,\) do not fit 3 inputs and axes \(2, 3\)"),
        ({"centers": torch.tensor([0.0, 3.0, 6.5]), "axes": (2,)}, r"\[0.0, 3.0, 6.5\] are not all within 0 .. \[6\]"),
        ({"centers": torch.tensor([0.0, -1.0, 6.0]), "axes": (2,)}, "not all within"),
        ({"centers": torch.tensor([0.0, float("nan"), 6.0]), "axes": (2,)}, "not all within"),
    ],
)
def test_bad_input_is_named(arguments, message):
    arguments = {"inputs": torch.zeros(3, 2, 7, 5), "radius": 1, "replacement": "mean"} | arguments
    with pytest.raises(ValueError, match=message):
        occlude(**arguments)
