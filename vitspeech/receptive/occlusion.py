"""How large a part of its input a model needs: accuracy when everything outside a window is replaced.

Zeiler and Fergus 2014 (arXiv:1311.2901, sec. 4.2) replace a square of an image and keep the rest; here the window is
kept and the rest is replaced. A replacement not only removes information but also changes the input's statistics (no
training image has a gray frame), and each replacement does so differently. Compare the three.

Shapes: B batch, C channels, R rows, W columns, A axes of the window, K classes; P positions that are visible or hidden:
R·W for images, R for log-mel frames, whose rows are times and whose columns, the mel bins, are visible or hidden
together; N inputs, S radii, M resamples (the first is the inputs themselves).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from vitspeech.metrics.intervals import Numbers, estimate, resampling_weights, wilson_interval

REPLACEMENTS = ("mean", "blur", "shuffle")
BLUR = 1 / 8  # standard deviation of the blur relative to the side: removes outlines, keeps the overall brightness
ROUNDING = 1e-9  # far below the change of accuracy due to one input


@dataclass(frozen=True, eq=False)
class VisibleAccuracy:
    """Accuracy against the radius of the visible window.

    Args:
        radii: Increasing from 0, where everything is hidden, to the smallest radius at which nothing is.
        correct: For each replacement, whether the prediction for each input is right at each radius, bool (S, N); the
            last row is that of the whole inputs.
        agreement: Whether "right" means equal to the model's own prediction for the whole input, not to a label; then
            every "accuracy" here is an agreement, and `whole` is 1 by construction.
    """

    radii: list[float]
    correct: dict[str, Tensor]
    agreement: bool = False

    @property
    def quantity(self) -> str:
        """What is measured: `accuracy` or `agreement`."""
        return "agreement" if self.agreement else "accuracy"

    @property
    def count(self) -> int:
        """Number of inputs."""
        return next(iter(self.correct.values())).shape[1]

    @property
    def accuracy(self) -> dict[str, list[float]]:
        """For each replacement, the accuracy at each radius: first with everything hidden, last `whole`."""
        return {name: (rows.double().sum(1) / self.count).tolist() for name, rows in self.correct.items()}

    @property
    def whole(self) -> float:
        """The accuracy on the whole inputs."""
        return next(iter(self.accuracy.values()))[-1]

    @property
    def interval(self) -> dict[str, list[tuple[float, float]]]:
        """The 95 % confidence interval of each accuracy (Wilson 1927)."""
        return {
            name: [*(wilson_interval(value, self.count) for value in curve[:-1]), self.whole_interval]
            for name, curve in self.accuracy.items()
        }

    @property
    def whole_interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of `whole`; agreement on whole inputs is 1 without uncertainty."""
        return (1.0, 1.0) if self.agreement else wilson_interval(self.whole, self.count)

    def keeps(self, fraction: float = 0.9) -> Numbers:
        """The radius above which the accuracy stays at or above a fraction (above 0) of `whole`, for each replacement.

        Interpolated linearly between the measured radii; 0 if the replacement is sufficient. It is always defined,
        because the last radius shows everything. The 95 % interval is bootstrapped over inputs.
        """
        return {name: estimate(radii) for name, radii in self.resampled_keeps(fraction).items()}

    def resampled_keeps(self, fraction: float = 0.9) -> dict[str, Tensor]:
        """The radii of `keeps` for the inputs themselves and for each bootstrap resample: (M,)."""
        weights = resampling_weights(self.count)
        radii = torch.tensor(self.radii, dtype=torch.double)
        return {
            name: last_crossing(radii, weights @ rows.double().T / self.count, fraction)
            for name, rows in self.correct.items()
        }


@torch.inference_mode()
def visible_accuracy(
    model: Callable[[Tensor], Tensor],
    inputs: Tensor,
    labels: Tensor | None,
    radii: Sequence[float],
    *,
    centers: Tensor | None = None,
    axes: Sequence[int] = (2, 3),
    batch: int = 100,
) -> VisibleAccuracy:
    """Measure the accuracy when only a window of each input is visible and the rest is replaced (`WindowedInputs`).

    Args:
        model: In evaluation mode; returns logits, of which the highest is the prediction.
        inputs: At least two; normalized floats: images, or log-mel frames as images with one channel.
        labels: `None` uses the predictions for the whole inputs as labels, for models whose classes are not those of
            the data. The result is then the agreement with them (`VisibleAccuracy.agreement`), and `whole` is 1.
        radii: Increasing, in rows and columns; 0 and the whole input are always added. In images with an even side, the
            distances from the center are n + 1/2; radii of that form include exactly the positions up to there.
        centers: The center of each input's window, such as the center of a word; `None` is the center of the input.
        axes: The axes that the window limits: rows and columns (2, 3), or rows alone (2,), as for frames.
        batch: Inputs per forward pass; does not change the result.

    Shape:
        `model` (B, C, R, W) -> (B, K); labels (B,); centers (B, A), or (B,) for rows alone
    """
    extent = distances(inputs.shape, centers, axes).max().item()
    partial_radii = [0.0, *(float(radius) for radius in radii if 0 < radius < extent)]
    correct: dict[str, list[Tensor]] = {name: [] for name in REPLACEMENTS}
    random = torch.Generator().manual_seed(0)
    for part in torch.arange(len(inputs)).split(batch):
        part_centers = None if centers is None else centers[part]
        windows = WindowedInputs(inputs[part], centers=part_centers, axes=axes, random=random)
        predictions = model(windows.inputs).argmax(-1)
        targets = predictions if labels is None else labels[part].to(predictions.device)
        whole = predictions == targets
        for name in REPLACEMENTS:
            rows = [model(windows.occlude(radius, name)).argmax(-1) == targets for radius in partial_radii]
            correct[name].append(torch.stack([*rows, whole]).cpu())
    joined = {name: torch.cat(parts, 1) for name, parts in correct.items()}
    return VisibleAccuracy([*partial_radii, extent], joined, agreement=labels is None)


def last_crossing(radii: Tensor, curves: Tensor, fraction: float) -> Tensor:
    """The radius above which each curve stays at or above a fraction of its last value: (S,), (M, S) -> (M,)."""
    thresholds = fraction * curves[:, -1]
    below = curves < thresholds[:, None] - ROUNDING
    places = torch.arange(len(radii)).expand_as(below)
    last = torch.where(below, places, -1).amax(1)  # -1: the curve is never below
    start = last.clamp(min=0, max=len(radii) - 2)
    before, after = (curves.gather(1, places[:, None])[:, 0] for places in (start, start + 1))
    ratio = ((thresholds - before) / (after - before)).clamp(0, 1)
    return torch.where(last < 0, radii[0], radii[start].lerp(radii[start + 1], ratio))


class WindowedInputs:
    """A batch of inputs, masked outside a window.

    The rest is replaced by
    - `mean`: 0, which is the mean of the training set for normalized inputs. (The mean of the batch would depend on
      the other inputs.)
    - `blur`: the same input, blurred along rows and columns by a Gaussian with a standard deviation of an eighth of
      the side.
    - `shuffle`: the hidden positions in random order, which keeps their colors but not their arrangement. Each input
      has its own order; log-mel frames are shuffled as a whole.

    `inputs`, `centers` and `axes` are those of `visible_accuracy`; `random` draws the order of `shuffle`.
    """

    def __init__(
        self,
        inputs: Tensor,
        *,
        centers: Tensor | None = None,
        axes: Sequence[int] = (2, 3),
        random: torch.Generator,
    ) -> None:
        self.inputs = inputs
        self.distance = distances(inputs.shape, centers, axes).to(inputs.device)
        self.random = random

    def occlude(self, radius: float, replacement: str) -> Tensor:
        """The inputs with all positions replaced whose distance to the center exceeds `radius`: (B, C, R, W).

        A radius of 0 hides everything, including a position exactly at the center.
        """
        visible = (self.distance <= radius) & (radius > 0)
        if replacement == "shuffle":
            outside = self.shuffle(visible)
        else:
            outside = self.blurred if replacement == "blur" else self.inputs.new_zeros(())
        return torch.where(visible, self.inputs, outside)

    def shuffle(self, visible: Tensor) -> Tensor:
        """The inputs with the hidden positions in random order."""
        cells = self.inputs.reshape(*self.inputs.shape[:2], self.noise.shape[1], -1)
        visible = visible.expand(len(cells), *visible.shape[1:]).flatten(1)
        # Both lists start with the hidden positions: the targets in order, the sources ordered by their noise.
        targets = visible.byte().argsort(dim=1, stable=True)
        sources = self.noise.masked_fill(visible, 1).argsort(dim=1, stable=True)
        source = sources.scatter(1, targets, sources)
        return cells.gather(2, source[:, None, :, None].expand_as(cells)).reshape(self.inputs.shape)

    @cached_property
    def blurred(self) -> Tensor:
        """The inputs blurred along rows and columns: (B, C, R, W)."""
        rows, columns = (gaussian(size).to(self.inputs) for size in self.inputs.shape[2:])
        return rows @ self.inputs @ columns.T

    @cached_property
    def noise(self) -> Tensor:
        """A random number below 1 for each position, the same for all radii: (B, P)."""
        return torch.rand(len(self.inputs), self.distance[0].numel(), generator=self.random).to(self.inputs.device)


def distances(shape: Sequence[int], centers: Tensor | None, axes: Sequence[int]) -> Tensor:
    """The distance of each position from the window's center: the larger of those along rows and columns.

    Positions of equal distance form a square around the center. The center of a side of N is (N - 1) / 2, which is
    also the largest distance from it, so a radius of N / 2 shows everything.

    Shape:
        centers (B, A) or (B,) -> (B, 1, R, W), for rows alone (B, 1, R, 1); without centers B is 1
    """
    if centers is None:
        positions = torch.tensor([[(shape[axis] - 1) / 2 for axis in axes]])
    else:
        positions = centers.cpu().reshape(len(centers), -1)
    rows, *columns = ((torch.arange(shape[axis]) - positions[:, [i]]).abs() for i, axis in enumerate(axes))
    rows = rows[:, None, :, None]
    return torch.maximum(rows, columns[0][:, None, None]) if columns else rows


def gaussian(side: int) -> Tensor:
    """Gaussian blur along one axis as a matrix; each row sums to 1, without padding."""
    positions = torch.arange(side, dtype=torch.float64)
    return ((positions[:, None] - positions) / (BLUR * side)).square().div(-2).softmax(-1)
