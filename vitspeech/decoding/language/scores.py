"""What a language model adds to the score of a prefix in a search (shallow fusion).

    score(prefix) = log p_CTC(prefix) + α log p_LM(prefix) + β |prefix|

as in Hannun et al. (2014, arXiv:1408.2873, eq. 2), where |prefix| is the number of words; here of units, or of words if
the model's tokens are words. p_LM(prefix) does not include the end of the utterance, so that the score of a stream's
prefix does not depend on what follows.

Where the model's tokens are words, and the units of the search characters or pieces, a word is scored when it is
complete: by the space after it, or by the piece that begins the next one. The last word is scored as if it were
complete wherever a hypothesis is asked for. A word that the language model does not know has the probability of <unk>
and costs `UNKNOWN_COST` more, which a prefix pays at the first letter with which no word of the vocabulary begins. So
hypotheses of the beam are told apart within words, too.

Shapes: C classes of the search (C - 1 units and the blank).
"""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy

from vitspeech.decoding.language.ngrams import BEGIN, END, UNKNOWN, NgramModel
from vitspeech.decoding.vocabulary import WORD_START, vocabulary_kind
from vitspeech.errors import InputError

UNKNOWN_COST = 10.0  # nats, times the weight
CACHED_ROWS, CACHED_BYTES = 20_000, 64 * 2**20


class LanguageScores:
    """Scores of prefixes, unit by unit: the base of `UnitScores` and `WordScores`.

    Args:
        model: The language model.
        weight: α, the weight of the language model.
        bonus: β, added for each unit or word.
        most_rows: Rows that are kept.

    Attributes:
        start: The state of the empty prefix.
    """

    start: Hashable

    def __init__(self, model: NgramModel, weight: float, bonus: float, most_rows: int) -> None:
        self.model, self.weight, self.bonus, self.most_rows = model, weight, bonus, most_rows
        self.rows: dict[Hashable, numpy.ndarray] = {}

    def row(self, state: Any) -> numpy.ndarray:
        """What each unit adds to the score of a prefix in this state: (C - 1,). Not to be changed."""
        row = self.rows.get(state)
        if row is None:
            if len(self.rows) > self.most_rows:
                self.rows.clear()
            row = self.rows[state] = self.new_row(state)
        return row

    def new_row(self, state: Any) -> numpy.ndarray:
        """As `row`, computed."""
        raise NotImplementedError

    def advance(self, state: Any, unit: int) -> Hashable:
        """The state after one more unit."""
        raise NotImplementedError

    def final(self, state: Any) -> float:
        """What is added if the utterance ends here."""
        return 0.0

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"rows": {}}

    def __deepcopy__(self, memo: dict[int, Any]) -> "LanguageScores":
        return self  # the rows that it keeps change no result


class WordState(NamedTuple):
    """A prefix, as far as it matters.

    Args:
        words: The state of the language model after the complete words.
        begun: The letters of the word that is not complete.
    """

    words: int
    begun: str


class WordScores(LanguageScores):
    """Scores of a language model of words for a search over characters or pieces; β is added for each word."""

    def __init__(self, model: NgramModel, labels: Sequence[str], weight: float, bonus: float = 0.0) -> None:
        self.is_pieces = vocabulary_kind(labels) == "pieces"
        self.words = sorted(set(model.vocabulary) - {BEGIN, END, UNKNOWN})
        check_spelling(model, self.words, labels)
        super().__init__(model, weight, bonus, CACHED_ROWS)
        self.labels = list(labels)
        self.ends = [label.startswith(WORD_START) if self.is_pieces else label == " " for label in labels]
        self.letters = [label.removeprefix(WORD_START) if self.is_pieces else label.strip() for label in labels]
        self.start = WordState(model.start, "")
        self.costs: dict[str, numpy.ndarray] = {}

    def new_row(self, state: WordState) -> numpy.ndarray:
        return numpy.where(self.ends, self.final(state) + self.cost(""), self.cost(state.begun))

    def cost(self, begun: str) -> numpy.ndarray:
        """What each unit costs after the letters of a word, as more letters of the same word: (C - 1,)."""
        cost = self.costs.get(begun)
        if cost is None:
            if len(self.costs) > CACHED_ROWS:
                self.costs.clear()
            becomes_unknown = numpy.zeros(len(self.labels), dtype=bool)
            if self.is_beginning(begun):
                becomes_unknown[:] = [not self.is_beginning(begun + letters) for letters in self.letters]
            cost = self.costs[begun] = becomes_unknown * (-self.weight * UNKNOWN_COST)
        return cost

    def is_beginning(self, letters: str) -> bool:
        """Whether a word of the vocabulary begins with these letters."""
        place = bisect_left(self.words, letters)
        return place < len(self.words) and self.words[place].startswith(letters)

    def advance(self, state: WordState, unit: int) -> WordState:
        if not self.ends[unit]:
            return WordState(state.words, state.begun + self.letters[unit])
        words = self.model.advance(state.words, self.token(state.begun)) if state.begun else state.words
        return WordState(words, self.letters[unit])

    def final(self, state: WordState) -> float:
        """What the word that was begun adds to the score if it is complete."""
        if not state.begun:
            return 0.0
        token = self.token(state.begun)
        score = self.weight * self.model.log_probability(state.words, token) + self.bonus
        if token == self.model.index[UNKNOWN] and self.is_beginning(state.begun):  # else it was paid before
            score -= self.weight * UNKNOWN_COST
        return score

    def token(self, word: str) -> int:
        """The token of a word."""
        return self.model.index.get(word, self.model.index[UNKNOWN])

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"costs": {}}


def check_spelling(model: NgramModel, words: Sequence[str], labels: Sequence[str]) -> None:
    """Check that a language model of words fits a recognizer of characters or pieces."""
    if UNKNOWN not in model.index:
        raise InputError(f"the language model has no {UNKNOWN}; one of words needs it for units that spell other words")
    letters = set("".join(labels)) - {" ", WORD_START}
    if not any(letters.issuperset(word) for word in words):
        first = f"the first is {words[0]!r}" if words else "it has none"
        raise InputError(f"the recognizer's units can spell no word of the language model; {first}")


@lru_cache(maxsize=4)
def new_scores(model: NgramModel, labels: tuple[str, ...], weight: float, bonus: float) -> LanguageScores:
    """The scores of a language model for a search over `labels`, which it must fit.

    Searches share them, since they keep the probabilities that they met.
    """
    spells_words = model.kind == "words" != vocabulary_kind(labels)
    return (WordScores if spells_words else UnitScores)(model, labels, weight, bonus)


class UnitScores(LanguageScores):
    """Scores of a language model whose tokens are the units of the search.

    β is added for each unit, since a language model makes long prefixes less probable. The end is not scored.
    """

    def __init__(self, model: NgramModel, labels: Sequence[str], weight: float, bonus: float = 0.0) -> None:
        check_units(model, labels)
        super().__init__(model, weight, bonus, CACHED_BYTES // (8 * len(labels)))
        unknown, self.start = model.index.get(UNKNOWN), model.start
        self.tokens = [model.index.get(label, unknown) for label in labels]

    def new_row(self, state: int) -> numpy.ndarray:
        return self.weight * self.model.row(state)[self.tokens] + self.bonus

    def advance(self, state: int, unit: int) -> int:
        return self.model.advance(state, self.tokens[unit])


def check_units(model: NgramModel, labels: Sequence[str]) -> None:
    """Check that the tokens of a language model are the units of a recognizer.

    Units that the language model does not have are allowed if it has <unk>.
    """
    kind, units = vocabulary_kind(labels), set(labels)
    said = f", which are {model.kind}" if model.kind not in (None, kind) else ""
    foreign = next((token for token in model.vocabulary if token not in units | {BEGIN, END, UNKNOWN}), None)
    if foreign is not None:
        raise InputError(f"the language model has the unit {foreign!r}{said}; it is not among the recognizer's {kind}")
    missing = None if UNKNOWN in model.index else next((unit for unit in labels if unit not in model.index), None)
    if missing is not None:
        raise InputError(f"the language model lacks {missing!r} of the recognizer's {kind}; it needs all of them")
