"""From a decoder that says the next unit to transcripts: the likeliest unit each time, or a beam of hypotheses.

A step is `step(units (R,), cache) -> (log_probs (R, C), cache)`: the units just said, and what comes next. The last
class is the end. The first units lie on the CPU; a step takes them to where it computes.

Shapes: B utterances, K hypotheses of each (the beam), R rows of a step (B, or what is left of B · K), C classes,
A utterances still searched, L units so far.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from vitspeech.decoding.prefix_scores import PrefixScores


class Cache(Protocol):
    """What a step keeps of its rows, as `vitspeech.attention.DecoderCache`."""

    def select(self, indices: Tensor) -> Self:
        """The rows at `indices`, in that order; one may come several times."""


Kept = TypeVar("Kept", bound=Cache)


@dataclass(frozen=True)
class Hypothesis:
    """A transcript, and how likely it is.

    Attributes:
        units: Without the end.
        log_probability: Natural logarithm, the end included if it ended; with a scorer, the weighted mean of both.
        score: What hypotheses are ordered by: `log_probability` over the normalizer of its length.
        ended: Whether it came to its end; otherwise it was cut at the longest length.
    """

    units: tuple[int, ...]
    log_probability: float
    score: float
    ended: bool


def length_normalizer(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha (Wu et al. 2016, arXiv:1609.08144, eq. 14); the end counts as a unit of the length."""
    return ((5 + length) / 6) ** alpha


@torch.no_grad()
def greedy(
    step: Callable[[Tensor, Any], tuple[Tensor, Any]], cache: Any, *, start: int, batch: int, longest: int
) -> list[Hypothesis]:
    """The likeliest unit each time, until all utterances have ended: one hypothesis for each.

    Args:
        step: Says what comes next.
        cache: Of B rows, before the first step.
        start: The unit that stands before the first.
        batch: Utterances B.
        longest: Units of a transcript at most.

    Raises:
        ValueError: If `batch` or `longest` is below 1.
    """
    check_sizes(batch=batch, longest=longest)
    units, said, open_ = torch.full((batch,), start), [], torch.ones(batch, dtype=torch.bool)
    totals = torch.zeros(batch)
    for length in range(longest + 1):
        log_probs, cache = step(units, cache)
        best, units = at_least_single(log_probs).max(1)
        end = log_probs.shape[1] - 1
        totals, open_ = totals.to(best), open_.to(best.device)
        # Past the longest length only the end is looked for: a unit more would be too many.
        counts = open_ if length < longest else open_ & (units == end)
        totals = torch.where(counts, totals + best, totals)
        open_ = open_ & (units != end)
        said.append(torch.where(open_, units, end))
        # An utterance that has ended is given something valid; what is said of it no longer counts.
        units = torch.where(open_, units, start)
        if not open_.any():
            break
    spelled = torch.stack(said, 1)[:, :longest].tolist()
    found = zip(spelled, totals.tolist(), (~open_).tolist(), strict=True)
    return [Hypothesis(tuple(unit for unit in row if unit != end), total, total, ended) for row, total, ended in found]


@torch.no_grad()
def beam_search(
    step: Callable[[Tensor, Kept], tuple[Tensor, Kept]],
    cache: Kept,
    *,
    start: int,
    batch: int,
    longest: int,
    beam: int = 4,
    length_penalty: float = 0.6,
    scorer: PrefixScores | None = None,
    ctc_weight: float = 0.0,
) -> list[list[Hypothesis]]:
    """The K likeliest beginnings of each utterance, extended together; at most K hypotheses each, the best first.

    A beginning with the end after it is a hypothesis if it is among the K likeliest of a step; the K likeliest with
    another unit are gone on with. An utterance is done when no beginning can become better than its best hypothesis:
    the first returned is that of a search without a stop, the others are what had ended by then. If nothing ended,
    beginnings of the longest length are returned, marked so.

    Args:
        step: Says what comes next.
        cache: Of B rows, before the first step.
        start: The unit that stands before the first.
        batch: Utterances B.
        longest: Units of a transcript at most.
        beam: Hypotheses K.
        length_penalty: The exponent of `length_normalizer`; 0 orders by probability, which favors the short.
        scorer: CTC's opinion of the same utterances.
        ctc_weight: w in (1 - w) log p + w log p of CTC (Watanabe et al. 2017, doi:10.1109/JSTSP.2017.2763455); at 1
            the step has no say.

    Raises:
        ValueError: If a number is out of its range, or there is a weight without a scorer or for another batch.
    """
    check_sizes(batch=batch, longest=longest, beam=beam)
    check_weights(length_penalty, ctc_weight, scorer, batch)
    state = scorer.start() if scorer is not None and ctc_weight else None
    ended: list[list[Hypothesis]] = [[] for _ in range(batch)]
    searched, units = list(range(batch)), torch.full((batch,), start)
    attention = totals = torch.zeros(batch, 1)
    said = torch.empty(batch, 1, 0, dtype=torch.long)
    for length in range(1, longest + 2):
        log_probs, cache = step(units, cache)
        end, normalizer = log_probs.shape[1] - 1, length_normalizer(length, length_penalty)
        attention, totals, said = (kept.to(log_probs.device) for kept in (attention, totals, said))
        likelier = attention[..., None] + at_least_single(log_probs).unflatten(0, attention.shape)
        extended = likelier
        if state is not None:
            extended = weighted(likelier, scorer.extend(state).unflatten(0, attention.shape), ctc_weight)

        every = extended.flatten(1)
        threshold = every.topk(min(beam, every.shape[1])).values[:, -1:]
        ends = extended[..., end]
        for place, row in ((ends >= threshold) & (ends > -torch.inf)).nonzero().tolist():
            total = ends[place, row].item()
            found = Hypothesis(tuple(said[place, row].tolist()), total, total / normalizer, True)
            ended[searched[place]].append(found)

        others = extended[..., :end].flatten(1)
        best, chosen = others.topk(min(beam, others.shape[1]))
        # Probabilities only fall: no beginning can do better than its own, at the length that divides it most.
        bounds = (best[:, 0] / length_normalizer(longest + 1, length_penalty)).tolist()
        left = [place for place, number in enumerate(searched) if can_improve(ended[number], bounds[place])]
        left = left if length <= longest else []
        for place in set(range(len(searched))) - set(left):
            if not ended[searched[place]]:
                divisor = length_normalizer(length - 1, length_penalty)
                ended[searched[place]] = beginnings(said[place], totals[place], divisor)
        if not left:
            break
        places = torch.tensor(left, device=chosen.device)
        parents, added = (chosen // end)[places], (chosen % end)[places]
        rows, units = (places[:, None] * said.shape[1] + parents).flatten(), added.flatten()
        searched = [searched[place] for place in left]
        totals, attention = best[places], likelier[..., :end].flatten(1).gather(1, chosen)[places]
        said = torch.cat((said.flatten(0, 1)[rows].unflatten(0, parents.shape), added[..., None]), dim=2)
        cache = cache.select(rows)
        state = None if state is None else scorer.select(state, rows, units)
    return [sorted(found, key=lambda hypothesis: -hypothesis.score)[:beam] for found in ended]


def weighted(attention: Tensor, ctc: Tensor, weight: float) -> Tensor:
    """(1 - w) times the one and w times the other; at w = 1 the one's impossible is no zero times infinity."""
    return ctc if weight == 1 else (1 - weight) * attention + weight * ctc


def can_improve(ended: list[Hypothesis], bound: float) -> bool:
    """Whether something that may reach the score `bound` can become the best."""
    return bound > max((hypothesis.score for hypothesis in ended), default=-torch.inf)


def beginnings(said: Tensor, totals: Tensor, normalizer: float) -> list[Hypothesis]:
    """What did not end, of one utterance: (K, L), (K,) -> K hypotheses, or fewer where some are impossible."""
    possible = max(int((totals > -torch.inf).sum()), 1)
    found = list(zip(said.tolist(), totals.tolist(), strict=True))[:possible]
    return [Hypothesis(tuple(units), total, total / normalizer, False) for units, total in found]


def at_least_single(log_probs: Tensor) -> Tensor:
    """In single precision or better: in half a long transcript's sum would lose its last unit."""
    return log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))


def check_sizes(**sizes: int) -> None:
    """Refuse a size below 1, naming it.

    Raises:
        ValueError: If there is one.
    """
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size} is below 1")


def check_weights(length_penalty: float, ctc_weight: float, scorer: PrefixScores | None, batch: int) -> None:
    """Refuse weights out of range, and a scorer that is missing or for other utterances.

    Raises:
        ValueError: If it is so.
    """
    if not length_penalty >= 0:
        raise ValueError(f"length_penalty={length_penalty} is negative")
    if not 0 <= ctc_weight <= 1:
        raise ValueError(f"ctc_weight={ctc_weight} is not within 0 .. 1")
    if ctc_weight and scorer is None:
        raise ValueError(f"ctc_weight={ctc_weight} needs a scorer")
    if scorer is not None and scorer.batch != batch:
        raise ValueError(f"the scorer is for {scorer.batch} utterances, not for batch={batch}")
