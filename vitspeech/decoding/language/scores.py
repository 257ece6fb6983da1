"""What a language model adds to the score of a prefix in a search (shallow fusion).

    score(prefix) = log p_CTC(prefix) + α log p_LM(prefix) + β |prefix|

as in Hannun et al. (2014, arXiv:1408.2873, eq. 2), where |prefix| is the number of words; here of units, or of words if
the model's tokens are words. p_LM(prefix) does not include the end of the utterance, so that the score of a stream's
prefix does not depend on what follows.

Shapes: C classes of the search (C - 1 units and the blank).
"""

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy

from vitspeech.decoding.language.ngrams import BEGIN, END, UNKNOWN, NgramModel
from vitspeech.decoding.language.words import WordScores
from vitspeech.decoding.units import kind_of
from vitspeech.errors import InputError

CACHED_BYTES = 64 * 2**20


class LanguageScores(Protocol):
    """Scores of prefixes, unit by unit."""

    start: Hashable

    def row(self, state: Any) -> numpy.ndarray:
        """What each unit adds to the score of a prefix in this state: (C - 1,). Not to be changed."""

    def advance(self, state: Any, unit: int) -> Hashable:
        """The state after one more unit."""

    def final(self, state: Any) -> float:
        """What is added if the utterance ends here."""


def new_scores(model: NgramModel, labels: Sequence[str], weight: float, bonus: float) -> LanguageScores:
    """The scores of a language model for a search over `labels`.

    Raises:
        InputError: If the language model does not fit the labels.
    """
    spells_words = model.kind == "words" != kind_of(labels)
    return (WordScores if spells_words else UnitScores)(model, labels, weight, bonus)


class UnitScores:
    """Scores of a language model whose tokens are the units of the search.

    Args:
        model: The language model.
        labels: The units of the search.
        weight: α, the weight of the language model.
        bonus: β, added for each unit, since a language model makes long prefixes less probable.

    Raises:
        InputError: If the units are not those of the language model.
    """

    def __init__(self, model: NgramModel, labels: Sequence[str], weight: float, bonus: float = 0.0) -> None:
        check_units(model, labels)
        self.model, self.weight, self.bonus, self.start = model, weight, bonus, model.start
        unknown = model.index.get(UNKNOWN)
        self.tokens = [model.index.get(label, unknown) for label in labels]
        self.rows: dict[int, numpy.ndarray] = {}

    def row(self, state: int) -> numpy.ndarray:
        """What each unit adds to the score of a prefix in this state: (C - 1,). Not to be changed."""
        row = self.rows.get(state)
        if row is None:
            if len(self.rows) * len(self.tokens) * 8 > CACHED_BYTES:
                self.rows.clear()
            row = self.rows[state] = self.weight * self.model.row(state)[self.tokens] + self.bonus
        return row

    def advance(self, state: int, unit: int) -> int:
        """The state after one more unit."""
        return self.model.advance(state, self.tokens[unit])

    def final(self, state: int) -> float:
        """Nothing: the end of the utterance is not scored."""
        return 0.0

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"rows": {}}

    def __deepcopy__(self, memo: dict[int, Any]) -> "UnitScores":
        return self  # the rows that it keeps change no result


def check_units(model: NgramModel, labels: Sequence[str]) -> None:
    """Check that the tokens of a language model are the units of a recognizer.

    Units that the language model does not have are allowed if it has <unk>.

    Raises:
        InputError: If they are not; the message names the first one that differs.
    """
    kind, units = kind_of(labels), set(labels)
    said = f", which are {model.kind}" if model.kind not in (None, kind) else ""
    foreign = next((token for token in model.vocabulary if token not in units | {BEGIN, END, UNKNOWN}), None)
    if foreign is not None:
        raise InputError(f"the language model has the unit {foreign!r}{said}; it is not among the recognizer's {kind}")
    missing = None if UNKNOWN in model.index else next((unit for unit in labels if unit not in model.index), None)
    if missing is not None:
        raise InputError(f"the language model lacks {missing!r} of the recognizer's {kind}; it needs all of them")
