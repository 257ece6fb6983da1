"""The functional receptive field: how much of an input a model needs to answer as well as it does.

Shapes: B batch, C channels, R rows, W columns, A axes of the window, K classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from vitspeech.metrics.intervals import wilson_interval
from vitspeech.receptive.occlusion.windows import REPLACEMENTS, Windowed, distances

ROUNDING = 1e-9  # far below what one input changes in an accuracy


@dataclass(frozen=True)
class VisibleAccuracy:
    """Accuracy against the radius of the window that stays visible.

    Args:
        radii: Rising from 0, where nothing is visible, to the smallest that shows every input whole.
        accuracy: For each replacement the accuracy at each radius; the last is `whole`.
        count: Number of inputs.
    """

    radii: list[float]
    accuracy: dict[str, list[float]]
    count: int

    @property
    def whole(self) -> float:
        """The accuracy with everything visible."""
        return next(iter(self.accuracy.values()))[-1]

    @property
    def nothing(self) -> dict[str, float]:
        """The accuracy with nothing visible: what the replacement alone still tells."""
        return {name: curve[0] for name, curve in self.accuracy.items()}

    @property
    def interval(self) -> dict[str, list[tuple[float, float]]]:
        """The 95 % confidence interval of each accuracy (Wilson 1927)."""
        return {name: [wilson_interval(share, self.count) for share in curve] for name, curve in self.accuracy.items()}

    @property
    def whole_interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of `whole`."""
        return wilson_interval(self.whole, self.count)

    def keeps(self, share: float = 0.9) -> dict[str, float]:
        """The smallest radius from which on the accuracy stays at or above `share` of `whole`, for each replacement.

        Linear between the measured radii; 0 where the replacement alone is enough. Always defined, since the last
        radius shows everything.

        Raises:
            ValueError: If the share is not above 0 and at most 1.
        """
        if not 0 < share <= 1:
            raise ValueError(f"share={share} is not above 0 and at most 1")
        wanted = share * self.whole
        return {name: settled(self.radii, curve, wanted) for name, curve in self.accuracy.items()}


@torch.inference_mode()
def visible_accuracy(
    answer: Callable[[Tensor], Tensor],
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
    """Measure the accuracy when only a window of each input is visible and the rest is replaced (`Windowed`).

    Covering a part of the picture and looking at the answer is Zeiler and Fergus 2014 (arXiv:1311.2901, sec. 4.2);
    here all but one part is covered. What a replacement does to a model beyond taking information away (no picture
    it was trained on has a gray frame) differs from one to another, so read the three together.

    Args:
        answer: The model, in evaluation mode; of its logits the highest is the answer.
        inputs: Normalized floats: pictures, or log-mel frames as pictures of one channel.
        labels: `None` takes the answers to the whole inputs instead, for models without labels: the accuracy is
            then agreement with itself, and `whole` is 1.
        radii: Rising, in rows and columns; nothing and everything are measured anyhow. From the middle of an even side
            the distances are n + 1/2, so radii of that kind say exactly how far the model saw.
        replacements: What stands outside the window, of `REPLACEMENTS`.
        centers: Where each input's window is centered, as at a word; `None` is the exact middle.
        axes: What the window bounds: rows and columns (2, 3), or rows alone (2,), as for frames.
        batch: Inputs that go through the model at once; the result does not depend on it.
        progress: Called after each batch with its number of inputs: `update` of a bar.

    Shape:
        `answer` (B, C, R, W) -> (B, K); labels (B,); centers (B, A), or (B,) for rows alone

    Raises:
        ValueError: If there are fewer than two inputs, or an argument does not fit the others.
    """
    check(inputs, labels, radii, replacements, batch)
    extent = distances(inputs.shape, centers, axes).max().item()
    measured = [0.0, *(float(radius) for radius in radii if 0 < radius < extent)]
    right = {name: [0] * len(measured) for name in replacements}
    whole, random = 0, torch.Generator().manual_seed(0)

    def answers(shown: Tensor) -> Tensor:
        logits = answer(shown)
        if logits.dim() != 2 or len(logits) != len(shown):
            raise ValueError(f"the model answers {tuple(logits.shape)} to {len(shown)} inputs, not (B, classes)")
        return logits.argmax(-1)

    for part in torch.arange(len(inputs)).split(batch):
        windows = Windowed(inputs[part], centers=None if centers is None else centers[part], axes=axes, random=random)
        given = answers(windows.inputs)
        wanted = given if labels is None else labels[part].to(given.device)
        whole += (given == wanted).sum().item()
        for name in replacements:
            for place, radius in enumerate(measured):
                right[name][place] += (answers(windows.masked(radius, name)) == wanted).sum().item()
        if progress is not None:
            progress(len(part))
    count = len(inputs)
    curves = {name: [found / count for found in (*counts, whole)] for name, counts in right.items()}
    return VisibleAccuracy([*measured, extent], curves, count)


def settled(radii: Sequence[float], curve: Sequence[float], wanted: float) -> float:
    """The radius from which on the curve stays at or above `wanted`, where its last value is."""
    low = [value < wanted - ROUNDING for value in curve]
    if not any(low):
        return radii[0]
    last = max(place for place, below in enumerate(low) if below)
    (start, end), (before, after) = radii[last : last + 2], curve[last : last + 2]
    return start + (wanted - before) / (after - before) * (end - start)


def check(
    inputs: Tensor, labels: Tensor | None, radii: Sequence[float], replacements: Sequence[str], batch: int
) -> None:
    """Refuse what `visible_accuracy` can't measure, before the model has run."""
    if len(inputs) < 2:
        raise ValueError(f"{len(inputs)} inputs; an accuracy needs at least two")
    if labels is not None and labels.shape != (len(inputs),):
        raise ValueError(f"labels {tuple(labels.shape)} do not fit {len(inputs)} inputs")
    if any(not radius >= 0 for radius in radii):
        raise ValueError(f"radii {list(radii)} are not all 0 or above")
    if any(before >= after for before, after in pairwise(radii)):
        raise ValueError(f"radii {list(radii)} do not rise")
    unknown = [name for name in replacements if name not in REPLACEMENTS]
    if unknown or not replacements:
        raise ValueError(f"replacements {list(replacements)} are not of {', '.join(REPLACEMENTS)}")
    if batch < 1:
        raise ValueError(f"batch={batch} is below 1")
