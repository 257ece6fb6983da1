"""Accuracy against the radius of the visible window: how much of its input a model needs.

Occlusion was introduced by Zeiler and Fergus 2014 (arXiv:1311.2901, sec. 4.2).

Shapes: B batch, C channels, R rows, W columns, A axes of the window, K classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from vitspeech.metrics.intervals import wilson_interval
from vitspeech.receptive.occlusion.windows import REPLACEMENTS, WindowedInputs, distances

ROUNDING = 1e-9  # far below the change of accuracy due to one input


@dataclass(frozen=True)
class VisibleAccuracy:
    """Accuracy against the radius of the visible window.

    Args:
        radii: Increasing from 0, where everything is hidden, to the smallest radius at which nothing is.
        accuracy: For each replacement, the accuracy at each radius; the last value is `whole`.
        count: Number of inputs.
    """

    radii: list[float]
    accuracy: dict[str, list[float]]
    count: int

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
        return {name: [wilson_interval(value, self.count) for value in curve] for name, curve in self.accuracy.items()}

    @property
    def whole_interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of `whole`."""
        return wilson_interval(self.whole, self.count)

    def keeps(self, fraction: float = 0.9) -> dict[str, float]:
        """The radius above which the accuracy stays at or above a fraction of `whole`, for each replacement.

        Interpolated linearly between the measured radii; 0 if the replacement is sufficient. It is always defined,
        because the last radius shows everything.

        Raises:
            ValueError: If the fraction is not above 0 and at most 1.
        """
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction={fraction} is not above 0 and at most 1")
        threshold = fraction * self.whole
        return {name: last_crossing(self.radii, curve, threshold) for name, curve in self.accuracy.items()}


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
            the data. The accuracy is then the agreement with them, and `whole` is 1.
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
    correct = {name: [0] * len(partial_radii) for name in replacements}
    whole, random = 0, torch.Generator().manual_seed(0)

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
        whole += (predictions == targets).sum().item()
        for name in replacements:
            for index, radius in enumerate(partial_radii):
                correct[name][index] += (predict(windows.occlude(radius, name)) == targets).sum().item()
        if progress is not None:
            progress(len(part))
    count = len(inputs)
    curves = {name: [number / count for number in (*numbers, whole)] for name, numbers in correct.items()}
    return VisibleAccuracy([*partial_radii, extent], curves, count)


def last_crossing(radii: Sequence[float], curve: Sequence[float], threshold: float) -> float:
    """The radius above which the curve stays at or above the threshold, which its last value reaches."""
    below = [value < threshold - ROUNDING for value in curve]
    if not any(below):
        return radii[0]
    last = max(index for index, is_below in enumerate(below) if is_below)
    (start, end), (before, after) = radii[last : last + 2], curve[last : last + 2]
    return start + (threshold - before) / (after - before) * (end - start)


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
