"""Differences between models, between input sizes, and due to training, with intervals of the paired difference.

All models of a comparison are measured on the same inputs, and every number is resampled with the same draws of inputs
(`resampling_weights`), so the interval of a difference is that of the difference in each resample. Two measurements
may see offsets as far as their units and their input size allow; only offsets that count in both are compared. For
speech these are times in ms, since models may differ in their hop and in their mel bins, all of which count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from vitspeech.metrics.intervals import Estimate, estimate
from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.fields.measures import resampled

IN_IMAGE = ("side_50", "side_90")
IN_TIME = ("back_90", "ahead_90", "span_50", "span_90")
TRAINING, SIZE, MODELS = "training", "size", "models"
MIXED = "one model has accuracy, the other agreement with its own predictions"


@dataclass(frozen=True)
class Difference:
    """One number of two measurements on the same inputs."""

    # its name, as in `extent` or `extent_in_time`; `keeps_90_X` is the radius of the visible window that keeps 90 %
    # of the accuracy, or of the agreement of both models, with replacement X
    number: str
    first: Estimate  # the number in the first measurement, in px or ms
    second: Estimate  # that in the second
    change: Estimate  # `first` − `second`
    ratio: Estimate | None  # `first` / `second`; `None` if `second` may be 0 and `first` is not


@dataclass(frozen=True)
class Pair:
    """Two measurements that are compared, and their differences."""

    kind: str  # `training`: trained and untrained; `size`: the second and the first input size; `models`: two models
    first: tuple[Result, State]  # A result and the state of it that is compared
    second: tuple[Result, State]  # likewise; the same result for `training` and `size`

    @cached_property
    def window(self) -> tuple[float, float]:
        """The first and the last offset, along the rows, that are compared, in px or ms."""
        return self.common(0)

    def common(self, axis: int) -> tuple[float, float]:
        """The first and the last offset along an axis that count in both, in px or ms."""
        layers = [state.layers[-1] for _, state in (self.first, self.second)]
        ends = [[layer.cell * end for end in layer.fields.cumulative.window[axis]] for layer in layers]
        return max(first for first, _ in ends), min(last for _, last in ends)

    @property
    def mixes_agreement(self) -> bool:
        """Whether the visible windows of two models are left out, because only one has accuracy; see `MIXED`."""
        visible = [result.visible for result, _ in (self.first, self.second)]
        return None not in visible and visible[0].agreement != visible[1].agreement

    @cached_property
    def differences(self) -> list[Difference]:
        """The differences of the last layer's field within `window`, then those of the visible windows."""
        names = IN_TIME if self.first[0].subject.takes_audio else IN_IMAGE
        first, second = (self.measured(state) for _, state in (self.first, self.second))
        found = [difference(name, first[name], second[name]) for name in names]
        return found + (list(self.visible_differences()) if self.kind == MODELS else [])

    def measured(self, state: State) -> dict[str, Tensor]:
        """The resampled numbers of the last layer on the offsets that are compared."""
        last = state.layers[-1]
        field = last.fields.cumulative
        rows = tuple(end / last.cell for end in self.window)
        columns = field.window[1] if self.first[0].subject.takes_audio else self.common(1)
        return resampled(field.within((rows, columns)), last.measure)

    def visible_differences(self) -> Iterator[Difference]:
        """The differences of the visible windows, if both are measured on as many inputs and in the same quantity."""
        results = (self.first[0], self.second[0])
        visible = [result.visible for result in results]
        if None in visible or visible[0].count != visible[1].count or self.mixes_agreement:
            return
        first, second = (
            {name: radii * result.main.layers[0].cell for name, radii in result.visible.resampled_keeps().items()}
            for result in results
        )
        for name in first:
            yield difference(f"keeps_90_{name}", first[name], second[name])


def difference(number: str, first: Tensor, second: Tensor) -> Difference:
    """From the resampled values of a number, (K,) each."""
    ratio = torch.where((first == 0) & (second == 0), 1.0, first / second)
    ratio = estimate(ratio) if ratio.isfinite().all() else None
    return Difference(number, *map(estimate, (first, second, first - second)), ratio)


def pairs(results: Sequence[Result]) -> list[Pair]:
    """Every pair that the report compares: of each model due to training and size, then of every two models."""
    found = []
    for result in results:
        main = (result, result.main)
        if result.untrained is not None and result.untrained is not result.main:
            found.append(Pair(TRAINING, main, (result, result.untrained)))
        if result.larger is not None:
            found.append(Pair(SIZE, (result, result.larger), main))
    return found + [Pair(MODELS, (a, a.main), (b, b.main)) for a, b in combinations(results, 2)]
