"""Intervals over the speakers of a test set, since the items of one speaker are not independent.

Shapes: N items.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from vitspeech.metrics.intervals import bootstrap_ratio_interval, group_sums, wilson_interval
from vitspeech.metrics.word_errors import RESAMPLES


def known_speakers(loader: DataLoader, count: int) -> Sequence | None:
    """The `speakers` of the data set that a loader reads, one entry per item; `None` if they are unknown."""
    speakers = getattr(getattr(loader, "dataset", None), "speakers", None)
    if speakers is not None and len(speakers) != count:
        raise ValueError(f"the test set has {len(speakers)} speakers for {count} items; give one entry per item")
    return speakers


def accuracy_interval(correct: Tensor, totals: Tensor, groups: Sequence[Hashable] | None = None) -> tuple[float, float]:
    """The 95 % interval of Σ correct / Σ totals.

    By bootstrap over groups, such as speakers; groups without trials are left out. Without groups, or with only one, it
    is Wilson's over single trials. If all trials are right or all are wrong, resamples do not differ; then it is
    Wilson's with one trial per group.

    `correct` and `totals` are numbers of trials, for example the right frames and all frames of a word.

    Shape:
        (N,), (N,) -> low, high
    """
    accuracy, trials = float(correct.sum() / totals.sum()), max(int(totals.sum()), 1)
    if groups is None:
        return wilson_interval(accuracy, trials)
    correct, totals = group_sums(correct.double(), groups), group_sums(totals.double(), groups)
    correct, totals = correct[totals > 0], totals[totals > 0]
    if len(totals) < 2:
        return wilson_interval(accuracy, trials)
    if accuracy in (0, 1):
        return wilson_interval(accuracy, len(totals))
    return bootstrap_ratio_interval(correct, totals, resamples=RESAMPLES)


def resampled(items: str, speakers: int | None) -> dict[str, Any]:
    """What a card says about its intervals: whether they are over speakers or over items, and how many speakers.

    `items` are `clips`, `images` or `utterances`. With one speaker the interval is over items.
    """
    count = {} if speakers is None else {"speakers": speakers}
    return {"interval_over": "speakers" if (speakers or 0) > 1 else items} | count


def describe_resampled(values: dict[str, Any]) -> str:
    """The entries of `resampled` as text."""
    over, speakers = values["interval_over"], values.get("speakers")
    if over == "speakers":
        return f"interval over {speakers:,} speakers"
    reason = "" if over == "images" else " (speakers unknown)" if speakers is None else " (one speaker)"
    return f"interval over {over}{reason}"
