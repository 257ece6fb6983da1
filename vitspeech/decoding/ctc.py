"""Decoding for CTC: the best path and the most probable labeling, on its own or with a language model.

A path has one class per token. Its labeling results from merging runs of one class and removing blanks (Graves et al.
2006), so that a repeated unit needs a blank in between. Many paths have the same labeling.

The searches are implemented here because streaming needs to continue a search from push to push: torchaudio 2.11 has
no CTC decoder any more, fast-ctc-decode takes full utterances and returns one labeling without its probability, and
pyctcdecode requires NumPy 1.

Shapes: T tokens, C classes (the first C - 1 are units, the last class is the blank), P prefixes of the beam.
"""

import math
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy
from torch import Tensor

from vitspeech.decoding.alignment import in_double
from vitspeech.decoding.language.scores import LanguageScores
from vitspeech.decoding.paths import Hypothesis, PathNode, Prefix, append, extend, from_rows, to_hypothesis, to_rows


class GreedySearch:
    """Best path decoding, token by token (Graves et al. 2006, sec. 3.2).

    The path of the most probable class of each token; ties go to the lower index. Its labeling is not necessarily the
    most probable one, which `PrefixBeamSearch` approximates. `log_probability` is that of the path.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin a new utterance."""
        self.classes: int | None = None
        self.tokens, self.log_probability = 0, 0.0
        self.last: PathNode | None = None  # the last unit of the best path

    def push(self, log_probs: Tensor) -> None:
        """Process the log-probabilities of the next tokens (T, C); T may differ between pushes."""
        rows = in_double(log_probs)
        self.classes = rows.shape[1]
        if not len(rows):
            return
        for unit, log_probability in zip(rows.argmax(-1).tolist(), rows.max(-1).tolist(), strict=True):
            self.log_probability += log_probability  # in order, so that the sum does not depend on the pushes
            if self.last and self.last.unit == unit and self.last.end == self.tokens:
                self.last = extend(self.last, self.tokens)
            elif unit != self.classes - 1:
                self.last = append(self.last, unit, self.tokens)
            self.tokens += 1

    def best(self) -> Hypothesis:
        """The labeling of the best path so far."""
        return to_hypothesis(self.last, self.log_probability)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"last": to_rows(PathNode, [self.last])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        (self.last,) = from_rows(PathNode, *state["last"])


# The most probable path of a prefix: its log-probability and its last unit.
Path = tuple[float, PathNode | None]
NO_PATH: Path = (-math.inf, None)


class PrefixBeamSearch:
    """Prefix beam search for the most probable labeling (Graves 2012, sec. 7.5; Hannun et al. 2014, arXiv:1408.2873,
    alg. 1).

    The probability of a prefix is the sum over its paths. Paths that end in the blank and paths that end in the last
    unit are summed separately, because a repeated unit is a new one only after a blank. After each token, all
    extensions of the prefixes are compared and the `beam` most probable ones are kept; no unit is excluded beforehand.
    `log_probability` is that of the labeling: exact if no prefix was pruned, otherwise a lower bound. The search is
    causal, so that a stream's hypotheses equal those of the full utterance. The cost of a token does not depend on the
    number of tokens before it.

    With a language model, prefixes are compared and sorted by log p_CTC(prefix) plus its score of the prefix (shallow
    fusion). `log_probability` stays that of CTC.

    Args:
        beam: Number of prefixes kept.
        language: The scores of a language model.
    """

    def __init__(self, beam: int = 8, language: LanguageScores | None = None) -> None:
        self.beam, self.language = beam, language
        self.restart()

    def restart(self) -> None:
        """Begin a new utterance."""
        self.classes: int | None = None
        self.tokens = 0
        self.prefixes = [Prefix()]
        self.states = [self.language.start] if self.language else []  # of the language model, after each prefix
        self.totals = numpy.zeros(1)  # (P,): the language model's scores of the prefixes
        # Each prefix and unit with the prefix that they make, as long as that is in the beam or begins one that is.
        self.extensions: WeakValueDictionary[tuple[Prefix, int], Prefix] = WeakValueDictionary()
        self.in_blank, self.in_unit = numpy.zeros(1), numpy.full(1, -math.inf)  # (P,): sums over paths
        self.paths: list[tuple[Path, Path]] = [((0.0, None), NO_PATH)]  # the best ending in the blank, and in the unit

    def push(self, log_probs: Tensor) -> None:
        """Process the log-probabilities of the next tokens (T, C); T may differ between pushes."""
        rows = in_double(log_probs)
        self.classes = rows.shape[1]
        for row in rows:
            self.step(row)

    @property
    def last(self) -> PathNode | None:
        """The last unit of the best path of the most probable labeling."""
        return more_probable(*self.paths[self.ranking[0]])[1]

    @property
    def log_probability(self) -> float:
        """The log-probability of the most probable labeling."""
        return self.hypothesis_log_probability(self.ranking[0])

    def best(self) -> Hypothesis:
        """The most probable labeling so far."""
        return self.hypothesis(self.ranking[0])

    def hypotheses(self) -> list[Hypothesis]:
        """All labelings in the beam, the most probable first."""
        return [self.hypothesis(index) for index in self.ranking]

    def hypothesis(self, index: int) -> Hypothesis:
        """The labeling at an index of the beam."""
        return to_hypothesis(more_probable(*self.paths[index])[1], self.hypothesis_log_probability(index))

    def hypothesis_log_probability(self, index: int) -> float:
        """The log-probability of the labeling at an index of the beam."""
        return float(numpy.logaddexp(self.in_blank[index], self.in_unit[index]))

    @property
    def ranking(self) -> Sequence[int]:
        """The indices of the beam, the best first if the utterance ends here."""
        if self.language is None:
            return range(len(self.prefixes))
        ends = numpy.array([self.language.final(state) for state in self.states])
        scores = numpy.logaddexp(self.in_blank, self.in_unit) + self.totals + ends
        return numpy.argsort(-scores, kind="stable").tolist()

    def step(self, row: numpy.ndarray) -> None:
        """Process the log-probabilities of one token (C,)."""
        blank, count = len(row) - 1, len(self.prefixes)
        # The empty prefix has no path that ends in a unit; the blank is a placeholder for its last unit.
        last = [blank if prefix.unit is None else prefix.unit for prefix in self.prefixes]
        either = numpy.logaddexp(self.in_blank, self.in_unit)
        in_blank, in_unit = either + row[blank], self.in_unit + row[last]
        scores = either[:, None] + row  # (P, C): the prefix with one more unit; the blank's column holds it unchanged
        scores[range(count), last] = self.in_blank + row[last]
        parents = self.parents()
        for index, parent in parents.items():  # the parent's extension is a prefix that is in the beam already
            in_unit[index] = numpy.logaddexp(in_unit[index], scores[parent, last[index]])
            scores[parent, last[index]] = -math.inf
        scores[:, blank] = numpy.logaddexp(in_blank, in_unit)

        totals = self.extended_totals(len(row)) if self.language else None
        ranks = (scores if totals is None else scores + totals).ravel()
        scores = scores.ravel()
        best = numpy.argsort(-ranks, kind="stable")[: self.beam]
        best = best[ranks[best] > -math.inf]
        if not len(best):  # no continuation is possible; keep the prefixes, so that there still is a hypothesis
            best = numpy.arange(count) * len(row) + blank
        indices, units = (part.tolist() for part in numpy.divmod(best, len(row)))
        is_unchanged = numpy.array(units) == blank
        values, paths, prefixes = row.tolist(), [], []
        for index, unit in zip(indices, units, strict=True):
            if unit == blank:
                prefixes.append(self.prefixes[index])
                paths.append(self.unchanged_paths(index, parents.get(index), values))
            else:
                prefixes.append(self.extended_prefix(index, unit))
                paths.append((NO_PATH, self.extended_path(index, unit, values)))
        self.in_blank = numpy.where(is_unchanged, in_blank[indices], -math.inf)
        self.in_unit = numpy.where(is_unchanged, in_unit[indices], scores[best])
        if totals is not None:
            self.totals, pairs = totals.ravel()[best], zip(indices, units, strict=True)
            states, advance = self.states, self.language.advance
            self.states = [states[i] if unit == blank else advance(states[i], unit) for i, unit in pairs]
        self.prefixes, self.paths = prefixes, paths
        self.tokens += 1

    def extended_totals(self, classes: int) -> numpy.ndarray:
        """The language model's score of each prefix with one more unit, and in the blank's column unchanged: (P, C)."""
        totals = numpy.repeat(self.totals[:, None], classes, axis=1)
        for index, state in enumerate(self.states):
            totals[index, :-1] += self.language.row(state)
        return totals

    def parents(self) -> dict[int, int]:
        """Maps prefixes to their parents (without the last unit), where both are in the beam, by their indices."""
        indices = {prefix: index for index, prefix in enumerate(self.prefixes)}
        candidates = {index: indices.get(prefix.parent) for prefix, index in indices.items()}
        return {index: parent for index, parent in candidates.items() if parent is not None}

    def extended_prefix(self, index: int, unit: int) -> Prefix:
        """The prefix at `index` extended by `unit`: the same object as long as a prefix of the beam begins with it."""
        key = self.prefixes[index], unit
        prefix = self.extensions.get(key)
        if prefix is None:
            prefix = self.extensions[key] = Prefix(*key)
        return prefix

    def extended_path(self, index: int, unit: int, row: list[float]) -> Path:
        """The best path of the prefix at `index` extended by `unit`, which begins at this token."""
        repeats = self.prefixes[index].unit == unit
        score, last = self.paths[index][0] if repeats else more_probable(*self.paths[index])
        return score + row[unit], append(last, unit, self.tokens)

    def unchanged_paths(self, index: int, parent: int | None, row: list[float]) -> tuple[Path, Path]:
        """The best paths of a prefix that this token leaves unchanged: ending in the blank, and in its last unit."""
        score, last = more_probable(*self.paths[index])
        in_blank, in_unit = (score + row[-1], last), NO_PATH
        unit = self.prefixes[index].unit
        if unit is not None:
            score, last = self.paths[index][1]
            if last is not None:
                in_unit = score + row[unit], extend(last, self.tokens)
            if parent is not None:
                in_unit = more_probable(in_unit, self.extended_path(parent, unit, row))
        return in_blank, in_unit

    def __getstate__(self) -> dict[str, Any]:
        best = [path for pair in self.paths for path in pair]
        paths = [score for score, _ in best], *to_rows(PathNode, [last for _, last in best])
        return vars(self) | {"paths": paths, "prefixes": to_rows(Prefix, self.prefixes), "extensions": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        scores, *nodes = state["paths"]
        best = list(zip(scores, from_rows(PathNode, *nodes), strict=True))
        self.paths = list(zip(best[::2], best[1::2], strict=True))
        self.prefixes = from_rows(Prefix, *state["prefixes"])
        self.extensions = WeakValueDictionary()
        for prefix in self.prefixes:
            while prefix.parent and (prefix.parent, prefix.unit) not in self.extensions:
                self.extensions[prefix.parent, prefix.unit] = prefix
                prefix = prefix.parent


def more_probable(path: Path, other: Path) -> Path:
    """The path of higher log-probability; ties go to the first."""
    return path if path[0] >= other[0] else other
