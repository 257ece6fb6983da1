"""Accuracy against the radius of the visible window: how much of its input a model needs.

Occlusion was introduced by Zeiler and Fergus 2014 (arXiv:1311.2901, sec. 4.2).

Shapes: B batch, C channels, R rows, W columns, A axes of the window, K classes; N inputs, S radii, M resamples (the
first is the inputs themselves).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from vitspeech.metrics.intervals import wilson_interval
from vitspeech.receptive.occlusion.windows import REPLACEMENTS, WindowedInputs, distances
from vitspeech.receptive.statistics import Numbers, estimate, resampling_weights

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
        """For each replacement, the accuracy at each radius; the last value is `whole`."""
        return {name: (rows.sum(1) / self.count).tolist() for name, rows in self.doubles.items()}

    @property
    def doubles(self) -> dict[str, Tensor]:
        """`correct` as numbers."""
        return {name: rows.double() for name, rows in self.correct.items()}

    @property
    def whole(self) -> float:
        """The accuracy on the whole inputs."""
        return next(iter(self.accuracy.values()))[-1]

    @property
    def nothing(self) -> dict[str, float]:
        """The accuracy with everything hidden, with only the replacement as input."""
        return {name: curve[0] for name, curve in self.accuracy.items()}

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
        """The radius above which the accuracy stays at or above a fraction of `whole`, for each replacement.

        Interpolated linearly between the measured radii; 0 if the replacement is sufficient. It is always defined,
        because the last radius shows everything. The 95 % interval is bootstrapped over inputs.

        Raises:
            ValueError: If the fraction is not above 0 and at most 1.
        """
        return {name: estimate(radii) for name, radii in self.resampled_keeps(fraction).items()}

    def resampled_keeps(self, fraction: float = 0.9) -> dict[str, Tensor]:
        """The radii of `keeps` for the inputs themselves and for each bootstrap resample: (M,)."""
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction={fraction} is not above 0 and at most 1")
        weights = resampling_weights(self.count)
        radii = torch.tensor(self.radii, dtype=torch.double)
        return {
            name: last_crossing(radii, weights @ rows.T / self.count, fraction) for name, rows in self.doubles.items()
        }


@torch.inference_mode()
def visible_accuracy(
    model: Callable[[Tensor], Tensor],
    inputs: Tensor,
    labels: Tensor | None,
    radii: Sequence[float],
    *,
    replacements: Sequence[str] = REPLACEMENTS,
    centers: Tensor | None = None,
    axes: Sequence[int] = (2, 3),
    batch: int = 100,
    progress: Callable[[int], object] | None = None,
) -> VisibleAccuracy:
    """Measure the accuracy when only a window of each input is visible and the rest is replaced (`WindowedInputs`).

    Zeiler and Fergus 2014 (arXiv:1311.2901, sec. 4.2) hide one part of an image; here all but one part is hidden. A
    replacement not only removes information but also changes the input's statistics (no training image has a gray
    frame), and each replacement does so differently. Compare the three.

    Args:
        model: In evaluation mode; returns logits, of which the highest is the prediction.
        inputs: Normalized floats: images, or log-mel frames as images with one channel.
        labels: `None` uses the predictions for the whole inputs as labels, for models whose classes are not those of
            the data. The result is then the agreement with them (`VisibleAccuracy.agreement`), and `whole` is 1.
        radii: Increasing, in rows and columns; 0 and the whole input are always added. In images with an even side, the
            distances from the center are n + 1/2; radii of that form include exactly the positions up to there.
        replacements: Some of `REPLACEMENTS`.
        centers: The center of each input's window, such as the center of a word; `None` is the center of the input.
        axes: The axes that the window limits: rows and columns (2, 3), or rows alone (2,), as for frames.
        batch: Inputs per forward pass; does not change the result.
        progress: Called after each batch with its number of inputs, like `update` of a progress bar.

    Shape:
        `model` (B, C, R, W) -> (B, K); labels (B,); centers (B, A), or (B,) for rows alone

    Raises:
        ValueError: If there are fewer than two inputs, or an argument does not fit the others.
    """
    check(inputs, labels, radii, replacements, batch)
    extent = distances(inputs.shape, centers, axes).max().item()
    partial_radii = [0.0, *(float(radius) for radius in radii if 0 < radius < extent)]
    correct: dict[str, list[Tensor]] = {name: [] for name in replacements}
    random = torch.Generator().manual_seed(0)

    def predict(batch_inputs: Tensor) -> Tensor:
        logits = model(batch_inputs)
        if logits.dim() != 2 or len(logits) != len(batch_inputs):
            count = len(batch_inputs)
            raise ValueError(f"the model returns {tuple(logits.shape)} for {count} inputs, not (B, classes)")
        return logits.argmax(-1)

    for part in torch.arange(len(inputs)).split(batch):
        part_centers = None if centers is None else centers[part]
        windows = WindowedInputs(inputs[part], centers=part_centers, axes=axes, random=random)
        predictions = predict(windows.inputs)
        targets = predictions if labels is None else labels[part].to(predictions.device)
        whole = predictions == targets
        for name in replacements:
            rows = [predict(windows.occlude(radius, name)) == targets for radius in partial_radii]
            correct[name].append(torch.stack([*rows, whole]).cpu())
        if progress is not None:
            progress(len(part))
    joined = {name: torch.cat(parts, 1) for name, parts in correct.items()}
    return VisibleAccuracy([*partial_radii, extent], joined, agreement=labels is None)


def last_crossing(radii: Tensor, curves: Tensor, fraction: float) -> Tensor:
    """The radius above which each curve stays at or above a fraction of its last value.

    Shape:
        radii (S,), curves (M, S) -> (M,)
    """
    thresholds = fraction * curves[:, -1]
    below = curves < thresholds[:, None] - ROUNDING
    places = torch.arange(len(radii)).expand_as(below)
    last = torch.where(below, places, -1).amax(1)  # -1: the curve is never below
    start = last.clamp(min=0, max=len(radii) - 2)
    before, after = (curves.gather(1, places[:, None])[:, 0] for places in (start, start + 1))
    ratio = ((thresholds - before) / (after - before)).clamp(0, 1)
    return torch.where(last < 0, radii[0], radii[start].lerp(radii[start + 1], ratio))


def check(
    inputs: Tensor, labels: Tensor | None, radii: Sequence[float], replacements: Sequence[str], batch: int
) -> None:
    """Check the arguments of `visible_accuracy` before the model runs."""
    if len(inputs) < 2:
        raise ValueError(f"{len(inputs)} inputs; an accuracy needs at least two")
    if labels is not None and labels.shape != (len(inputs),):
        raise ValueError(f"labels {tuple(labels.shape)} do not fit {len(inputs)} inputs")
    if any(not radius >= 0 for radius in radii):
        raise ValueError(f"radii {list(radii)} are not all 0 or above")
    if any(before >= after for before, after in pairwise(radii)):
        raise ValueError(f"radii {list(radii)} do not increase")
    unknown = [name for name in replacements if name not in REPLACEMENTS]
    if unknown or not replacements:
        raise ValueError(f"replacements {list(replacements)} are not in {', '.join(REPLACEMENTS)}")
    if batch < 1:
        raise ValueError(f"batch={batch} is below 1")
