"""Decoding for autoregressive decoders: greedy search and beam search, optionally joint with CTC.

A step is `step(units (R,), cache) -> (log_probs (R, C), cache)`: from the last units to the log-probabilities of the
next ones. The last class is the end. The first units are on the CPU; a step moves them to its device.

Shapes: B utterances, K hypotheses per utterance (the beam), R rows of a step (B, or A · K), C classes, A utterances
still searched, L units so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from vitspeech.decoding.prefix_scores import PrefixScores


class Cache(Protocol):
    """The state of a step's rows, such as `vitspeech.attention.DecoderCache`."""

    def select(self, indices: Tensor) -> Self:
        """The rows at `indices`, in that order; indices may repeat."""


AnyCache = TypeVar("AnyCache", bound=Cache)


@dataclass(frozen=True)
class Hypothesis:
    """A transcript with its probability.

    Attributes:
        units: The units, without the end.
        log_probability: Natural logarithm, including the end if `ended`; with a scorer, the weighted mean of both.
        score: The sort key of hypotheses: `log_probability` divided by the length normalizer.
        ended: Whether the decoder output the end; otherwise the transcript was cut at the maximum length.
    """

    units: tuple[int, ...]
    log_probability: float
    score: float
    ended: bool


def length_normalizer(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha (Wu et al. 2016, arXiv:1609.08144, eq. 14); the length includes the end."""
    return ((5 + length) / 6) ** alpha


@torch.no_grad()
def greedy(
    step: Callable[[Tensor, Any], tuple[Tensor, Any]], cache: Any, *, start: int, longest: Sequence[int]
) -> list[Hypothesis]:
    """Take the most probable next unit at each step until all utterances have ended: one hypothesis per utterance.

    Args:
        step: Computes the log-probabilities of the next units.
        cache: State of B rows before the first step.
        start: The start symbol.
        longest: Maximum number of units of each transcript (B).
    """
    batch, limits = len(longest), torch.tensor(longest)
    units, outputs, totals = torch.full((batch,), start), [], torch.zeros(batch)
    is_open, has_ended = torch.ones(batch, dtype=torch.bool), torch.zeros(batch, dtype=torch.bool)
    for length in range(max(longest) + 1):
        log_probs, cache = step(units, cache)
        best, units = at_least_single(log_probs).max(1)
        end = log_probs.shape[1] - 1
        totals, limits = totals.to(best), limits.to(best.device)
        is_open, has_ended = is_open.to(best.device), has_ended.to(best.device)
        is_end, goes_on = units == end, length < limits  # after its `longest` units only the end may follow
        totals = torch.where(is_open & (goes_on | is_end), totals + best, totals)
        has_ended, is_open = has_ended | (is_open & is_end), is_open & goes_on & ~is_end
        outputs.append(torch.where(is_open, units, end))
        # Ended utterances get a valid unit as input; their further outputs are ignored.
        units = torch.where(is_open, units, start)
        if not is_open.any():
            break
    rows = zip(torch.stack(outputs, 1).tolist(), totals.tolist(), has_ended.tolist(), strict=True)
    return [Hypothesis(tuple(unit for unit in row if unit != end), total, total, ended) for row, total, ended in rows]


@torch.no_grad()
def beam_search(
    step: Callable[[Tensor, AnyCache], tuple[Tensor, AnyCache]],
    cache: AnyCache,
    *,
    start: int,
    longest: Sequence[int],
    beam: int = 4,
    length_penalty: float = 0.6,
    scorer: PrefixScores | None = None,
    ctc_weight: float = 0.0,
) -> list[list[Hypothesis]]:
    """Beam search over a batch: up to K hypotheses per utterance, the best first.

    At each step the K most probable prefixes are extended by all units. Extensions by the end that are among the K best
    become hypotheses; the K best extensions by other units are kept as prefixes. The search of an utterance stops when
    no prefix can exceed its best hypothesis, so that the first hypothesis is that of a search without early stopping.
    If no hypothesis has ended, the prefixes of maximum length are returned with `ended=False`.

    Args:
        step: Computes the log-probabilities of the next units.
        cache: State of B rows before the first step.
        start: The start symbol.
        longest: Maximum number of units of each transcript (B).
        beam: Number of hypotheses K.
        length_penalty: Exponent of `length_normalizer`; 0 sorts by probability, which favors short transcripts.
        scorer: CTC prefix scores of the same utterances.
        ctc_weight: w in (1 - w) log p + w log p_CTC (Watanabe et al. 2017, doi:10.1109/JSTSP.2017.2763455); with 1 the
            step's log-probabilities are ignored.
    """
    batch = len(longest)
    state = scorer.start() if scorer is not None and ctc_weight else None
    ended: list[list[Hypothesis]] = [[] for _ in range(batch)]
    searched, units = list(range(batch)), torch.full((batch,), start)
    attention = totals = torch.zeros(batch, 1)
    prefixes = torch.empty(batch, 1, 0, dtype=torch.long)
    for length in range(1, max(longest) + 2):
        log_probs, cache = step(units, cache)
        end, normalizer = log_probs.shape[1] - 1, length_normalizer(length, length_penalty)
        attention, totals, prefixes = (tensor.to(log_probs.device) for tensor in (attention, totals, prefixes))
        extended_attention = attention[..., None] + at_least_single(log_probs).unflatten(0, attention.shape)
        extended = extended_attention  # (A, K, C)
        if state is not None:
            extended = weighted(extended_attention, scorer.extend(state).unflatten(0, attention.shape), ctc_weight)

        flat = extended.flatten(1)
        threshold = flat.topk(min(beam, flat.shape[1])).values[:, -1:]
        ends = extended[..., end]
        for index, row in ((ends >= threshold) & (ends > -torch.inf)).nonzero().tolist():
            total = ends[index, row].item()
            hypothesis = Hypothesis(tuple(prefixes[index, row].tolist()), total, total / normalizer, True)
            ended[searched[index]].append(hypothesis)

        others = extended[..., :end].flatten(1)
        best, positions = others.topk(min(beam, others.shape[1]))
        # Extensions never raise a probability: the score is bounded by the present one with the largest normalizer.
        remaining = []
        for index, (number, total) in enumerate(zip(searched, best[:, 0].tolist(), strict=True)):
            bound = total / length_normalizer(longest[number] + 1, length_penalty)
            exceeds = bound > max((hypothesis.score for hypothesis in ended[number]), default=-torch.inf)
            if length <= longest[number] and exceeds:
                remaining.append(index)
        for index in set(range(len(searched))) - set(remaining):
            if not ended[searched[index]]:
                divisor = length_normalizer(length - 1, length_penalty)
                ended[searched[index]] = unended(prefixes[index], totals[index], divisor)
        if not remaining:
            break
        indices = torch.tensor(remaining, device=positions.device)
        parents, added = (positions // end)[indices], (positions % end)[indices]
        rows, units = (indices[:, None] * prefixes.shape[1] + parents).flatten(), added.flatten()
        searched = [searched[index] for index in remaining]
        totals, attention = best[indices], extended_attention[..., :end].flatten(1).gather(1, positions)[indices]
        prefixes = torch.cat((prefixes.flatten(0, 1)[rows].unflatten(0, parents.shape), added[..., None]), dim=2)
        cache = cache.select(rows)
        state = None if state is None else scorer.select(state, rows, units)
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:beam] for hypotheses in ended]


def weighted(attention: Tensor, ctc: Tensor, weight: float) -> Tensor:
    """(1 - w) · attention + w · ctc; at w = 1 attention is ignored, since 0 · -inf would be NaN."""
    return ctc if weight == 1 else (1 - weight) * attention + weight * ctc


def unended(prefixes: Tensor, totals: Tensor, normalizer: float) -> list[Hypothesis]:
    """The prefixes of one utterance as hypotheses without an end: (K, L), (K,) -> those that are possible, or one."""
    possible = max(int((totals > -torch.inf).sum()), 1)
    rows = list(zip(prefixes.tolist(), totals.tolist(), strict=True))[:possible]
    return [Hypothesis(tuple(units), total, total / normalizer, False) for units, total in rows]


def at_least_single(log_probs: Tensor) -> Tensor:
    """Convert to at least single precision; in half precision the sums of long transcripts lose units."""
    return log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
