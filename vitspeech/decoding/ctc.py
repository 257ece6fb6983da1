"""CTC's searches, token by token: the best path, the most probable labeling, and a given labeling's best path.

A path names one class a token. Its labeling is what is left when runs of one class are merged and blanks are dropped
(Graves et al. 2006), so that a unit said twice needs a blank between. Many paths have one labeling.

The searches are our own since a stream's must go on from push to push: torchaudio 2.11 has none any more,
fast-ctc-decode takes whole utterances and gives one labeling without its probability, pyctcdecode stays below NumPy 2.

Shapes: T tokens, C classes, of which the first C - 1 are units and the last is the blank; P prefixes of the beam.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy
import torch
from torch import Tensor
from torchaudio.functional import forced_align

ROUNDING = 1e-3  # how far above 0 a log-probability of low precision may lie
IMPOSSIBLE = -1e30  # less than any sum of possible ones, and sums of it are finite


@dataclass(frozen=True)
class Hypothesis:
    """A labeling that was found.

    Args:
        units: Which, in order.
        log_probability: Natural logarithm; of one path or of all that were kept, as the search says.
        spans: For each unit the first token and the one after the last, in the best path found.
    """

    units: tuple[int, ...]
    log_probability: float
    spans: tuple[tuple[int, int], ...]


class GreedySearch:
    """The best path, as far as it has come (Graves et al. 2006, sec. 3.2, "best path decoding").

    The likeliest class of every token; of two that are alike the first. Its labeling needn't be the most probable
    one: that is what `PrefixBeamSearch` looks for. `log_probability` is the path's.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything: the next token is the first."""
        self.classes: int | None = None
        self.tokens, self.log_probability = 0, 0.0
        self.units: list[int] = []
        self.spans: list[tuple[int, int]] = []

    def push(self, log_probs: Tensor) -> None:
        """The next tokens' log-probabilities, as many as there are: (T, C).

        Raises:
            ValueError: If they are not (T, C), C is not that of earlier pushes, or they are no log-probabilities.
        """
        rows = checked(log_probs, self.classes)
        self.classes = rows.shape[1]
        if len(rows):
            self.follow(rows.argmax(-1).tolist(), rows.max(-1).tolist())

    def best(self) -> Hypothesis:
        """The labeling of the best path up to here."""
        return Hypothesis(tuple(self.units), self.log_probability, tuple(self.spans))

    def follow(self, path: Sequence[int], log_probs: Sequence[float]) -> None:
        """Go on by that path: its class and log-probability at every token."""
        for unit, log_probability in zip(path, log_probs, strict=True):
            self.log_probability += log_probability  # one by one, so that the sum does not depend on the pushes
            goes_on = self.units and self.units[-1] == unit and self.spans[-1][1] == self.tokens
            if goes_on:
                self.spans[-1] = self.spans[-1][0], self.tokens + 1
            elif unit != self.classes - 1:
                self.units.append(unit)
                self.spans.append((self.tokens, self.tokens + 1))
            self.tokens += 1


# The most probable path of a prefix: its log-probability and the prefix's spans, each linked to the one before:
# (before, first, after the last). Prefixes share their past so, and a unit that lasts costs nothing more.
Path = tuple[float, tuple | None]
NO_PATH: Path = (-math.inf, None)


class PrefixBeamSearch:
    """The most probable labeling, by a beam of its prefixes (Graves 2012, sec. 7.5; Hannun et al. 2014,
    arXiv:1408.2873, alg. 1 without a language model).

    A prefix's probability is the sum over its paths, those that end in blank and those that end in its last unit
    apart, because the same unit again is a new one after a blank alone. After every token the `beam` most probable
    prefixes are kept, of all that the token can make of them: no unit is left out beforehand. `log_probability` is
    that of the labeling, exact while the beam holds every prefix, and otherwise short of what went by pruned ones.
    A token depends on those before it alone, so a stream's hypotheses are those of the whole utterance.

    Args:
        beam: Prefixes that are kept.

    Raises:
        ValueError: If the beam is below 1.
    """

    def __init__(self, beam: int = 8) -> None:
        if beam < 1:
            raise ValueError(f"beam={beam} keeps no prefix")
        self.beam = beam
        self.restart()

    def restart(self) -> None:
        """Forget everything: the next token is the first."""
        self.classes: int | None = None
        self.tokens = 0
        self.prefixes: list[tuple[int, ...]] = [()]
        self.in_blank, self.in_unit = numpy.zeros(1), numpy.full(1, -math.inf)  # (P,), the sums over paths
        self.paths: list[tuple[Path, Path]] = [((0.0, None), NO_PATH)]  # the best that ends in blank, and in the unit

    def push(self, log_probs: Tensor) -> None:
        """The next tokens' log-probabilities, as many as there are: (T, C).

        Raises:
            ValueError: If they are not (T, C), C is not that of earlier pushes, or they are no log-probabilities.
        """
        rows = checked(log_probs, self.classes)
        self.classes = rows.shape[1]
        for row in rows:
            self.step(row)

    def best(self) -> Hypothesis:
        """The most probable labeling of what was pushed."""
        return self.hypothesis(0)

    def hypotheses(self) -> list[Hypothesis]:
        """Every labeling in the beam, the most probable first."""
        return [self.hypothesis(place) for place in range(len(self.prefixes))]

    def hypothesis(self, place: int) -> Hypothesis:
        """The labeling at that place of the beam."""
        spans, (_, linked) = [], likelier(*self.paths[place])
        while linked is not None:
            linked, first, end = linked
            spans.append((first, end))
        total = float(numpy.logaddexp(self.in_blank[place], self.in_unit[place]))
        return Hypothesis(self.prefixes[place], total, tuple(reversed(spans)))

    def step(self, row: numpy.ndarray) -> None:
        """Go on by one token: (C,)."""
        blank, count = len(row) - 1, len(self.prefixes)
        # The empty prefix has no path that ends in a unit; the blank in the unit's place only keeps the arrays whole.
        last = [prefix[-1] if prefix else blank for prefix in self.prefixes]
        either = numpy.logaddexp(self.in_blank, self.in_unit)
        in_blank, in_unit = either + row[blank], self.in_unit + row[last]
        scores = either[:, None] + row  # (P, C): the prefix with one unit more, and in the blank's column as it is
        scores[range(count), last] = self.in_blank + row[last]
        parents = self.parents()
        for place, parent in parents.items():  # two ways to one prefix, in the beam already
            in_unit[place] = numpy.logaddexp(in_unit[place], scores[parent, last[place]])
            scores[parent, last[place]] = -math.inf
        scores[:, blank] = numpy.logaddexp(in_blank, in_unit)

        scores = scores.ravel()
        kept = numpy.argsort(-scores, kind="stable")[: self.beam]
        kept = kept[scores[kept] > -math.inf]
        if not len(kept):  # nothing is possible any more; what was is still to be named
            kept = numpy.arange(count) * len(row) + blank
        places, units = (side.tolist() for side in numpy.divmod(kept, len(row)))
        stays = numpy.array(units) == blank
        values, paths, prefixes = row.tolist(), [], []
        for place, unit in zip(places, units, strict=True):
            if unit == blank:
                prefixes.append(self.prefixes[place])
                paths.append(self.stayed(place, parents.get(place), values))
            else:
                prefixes.append((*self.prefixes[place], unit))
                paths.append((NO_PATH, self.begun(place, unit, values)))
        self.in_blank = numpy.where(stays, in_blank[places], -math.inf)
        self.in_unit = numpy.where(stays, in_unit[places], scores[kept])
        self.prefixes, self.paths = prefixes, paths
        self.tokens += 1

    def parents(self) -> dict[int, int]:
        """Where in the beam a prefix stands, to where the prefix stands that lacks only its last unit."""
        places = {prefix: place for place, prefix in enumerate(self.prefixes)}
        found = {place: places.get(prefix[:-1]) for prefix, place in places.items() if prefix}
        return {place: parent for place, parent in found.items() if parent is not None}

    def begun(self, place: int, unit: int, row: list[float]) -> Path:
        """The best path that begins that unit after the prefix at that place, with this token."""
        repeats = self.prefixes[place][-1:] == (unit,)
        score, spans = self.paths[place][0] if repeats else likelier(*self.paths[place])
        return score + row[unit], (spans, self.tokens, self.tokens + 1)

    def stayed(self, place: int, parent: int | None, row: list[float]) -> tuple[Path, Path]:
        """The best paths of a prefix that stays as it is: by a blank, and by its last unit."""
        score, spans = likelier(*self.paths[place])
        in_blank, in_unit = (score + row[-1], spans), NO_PATH
        if self.prefixes[place]:
            unit = self.prefixes[place][-1]
            score, spans = self.paths[place][1]
            if spans is not None:
                in_unit = score + row[unit], (spans[0], spans[1], self.tokens + 1)
            if parent is not None:
                in_unit = likelier(in_unit, self.begun(parent, unit, row))
        return in_blank, in_unit


def align(log_probs: Tensor, units: Sequence[int]) -> Hypothesis:
    """The best of all paths that say these units: when each was said. `log_probability` is the path's.

    Args:
        log_probs: (T, C)
        units: What was said.

    Raises:
        ValueError: If there are no units, one is no unit, the tokens are too few, no path is possible, or log_probs
            are no log-probabilities.
    """
    rows, units = checked(log_probs), [int(unit) for unit in units]
    tokens, classes = rows.shape
    if not units:
        raise ValueError("no units to align: the transcript is empty")
    strange = [unit for unit in units if not 0 <= unit < classes - 1]
    if strange:
        raise ValueError(f"unit {strange[0]} is not among the {classes - 1} units of C={classes} classes")
    if tokens < tokens_needed(units):
        raise ValueError(f"{len(units)} units need {tokens_needed(units)} tokens with CTC, got T={tokens}")
    targets = torch.tensor([units], dtype=torch.int32)
    # With -inf torchaudio 2.11 follows pointers that it never wrote and gives random classes, so there is none.
    finite = torch.from_numpy(rows)[None].clamp(min=IMPOSSIBLE)
    path, scores = forced_align(finite, targets, blank=classes - 1)
    if scores.min() <= IMPOSSIBLE:
        raise ValueError(f"no path of the T={tokens} tokens says the {len(units)} units: their probability is 0")
    search = GreedySearch()
    search.classes = classes
    search.follow(path[0].tolist(), scores[0].tolist())
    return search.best()


def tokens_needed(units: Sequence[int]) -> int:
    """The fewest tokens that can say these units: one each, and a blank between a unit and the same again."""
    return len(units) + sum(int(one) == int(other) for one, other in pairwise(units))


def likelier(one: Path, other: Path) -> Path:
    """The path of the higher log-probability, the first of two that are alike."""
    return one if one[0] >= other[0] else other


def checked(log_probs: Tensor, classes: int | None = None) -> numpy.ndarray:
    """Log-probabilities (T, C) in double precision, in which sums over long utterances lose nothing."""
    if log_probs.ndim != 2 or not log_probs.shape[1]:
        raise ValueError(f"log_probs of shape {tuple(log_probs.shape)} are not (T tokens, C classes)")
    if classes is not None and log_probs.shape[1] != classes:
        raise ValueError(f"log_probs have C={log_probs.shape[1]} classes, those before had C={classes}")
    rows = log_probs.detach().to("cpu", torch.float64)
    if rows.isnan().any():
        raise ValueError(f"log_probs of token {rows.isnan().any(-1).int().argmax().item()} of T={len(rows)} hold NaN")
    if len(rows) and rows.max() > ROUNDING:
        raise ValueError(f"log_probs go up to {rows.max().item():.3g}, above 0: give the log_softmax of logits")
    return rows.numpy()
