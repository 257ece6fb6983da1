"""The parameters of a search for a transcript, and the CTC search that they describe."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vitspeech.decoding import ctc
from vitspeech.decoding.language import arpa
from vitspeech.decoding.language.ngrams import NgramModel
from vitspeech.decoding.language.scores import new_scores
from vitspeech.decoding.vocabulary import vocabulary_kind
from vitspeech.errors import InputError

SEARCH_RANGES = {  # the lowest and the highest value of each parameter, also of those on a card
    "beam": (1, 1000),
    "length_penalty": (0, 10),
    "ctc_weight": (0, 1),
    "language_weight": (0, 100),
    "length_bonus": (-100, 100),
}


@dataclass(frozen=True)
class Search:
    """Parameters of the search for a transcript.

    Args:
        beam: Number of hypotheses kept after each step, from 1, which is greedy search, to 1000. `None` is 1 for CTC
            over whole words without a language model, whose transcripts a beam does not improve, and 8 otherwise.
        length_penalty: Exponent of the length normalization of an encoder-decoder's scores, at most 10.
        ctc_weight: Weight of CTC in the score of an encoder-decoder that has a CTC head. Without CTC the decoder makes
            counting errors on utterances with more words than in training. 0.7 was the best value on validation
            utterances of 1 to 7 words, and within 0.1 percentage points of the best on those of 8 to 12 words.
        language_model: Language model of a recognizer with CTC: an ARPA file, which is read at once, or a model that
            was read. With a beam of 1, the search then keeps one prefix.
        language_weight: Weight α of the language model in log p_CTC + α log p_LM + β · length.
        length_bonus: β, added for each unit. Choose both on validation data; see docs/language-models.md.

    Raises:
        FileNotFoundError: If there is no such language model.
        InputError: If a number is out of its range, or the language model is not an ARPA file.
    """

    beam: int | None = None
    length_penalty: float = 0.6
    ctc_weight: float = 0.7
    language_model: NgramModel | str | Path | None = None
    language_weight: float = 0.3
    length_bonus: float = 0.5

    def __post_init__(self) -> None:
        for name, (low, high) in SEARCH_RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise InputError(f"{name}={value} is not within {low} .. {high}")
        if isinstance(self.language_model, str | Path):
            object.__setattr__(self, "language_model", arpa.read(self.language_model))

    def with_default_beam(self, labels: Sequence[str], *, ctc: bool) -> "Search":
        """This search with a number for the beam, for a model with these labels that has CTC alone, or not."""
        if self.beam is not None:
            return self
        is_greedy = ctc and self.language_model is None and vocabulary_kind(labels) == "words"
        return replace(self, beam=1 if is_greedy else 8)

    def settings(self) -> dict[str, Any]:
        """The parameters for a card or a table; those of a language model only if there is one."""
        settings = asdict(self)
        if self.language_model is None:
            return {name: settings[name] for name in ("beam", "length_penalty", "ctc_weight")}
        return settings | {"language_model": self.language_model.checksum}


def new_ctc_search(search: Search, labels: Sequence[str]) -> ctc.GreedySearch | ctc.PrefixBeamSearch:
    """A CTC search that accepts log-probabilities in parts; a language model must be of the units in `labels`."""
    search = search.with_default_beam(labels, ctc=True)
    if search.language_model is None:
        return ctc.GreedySearch() if search.beam == 1 else ctc.PrefixBeamSearch(search.beam)
    scores = new_scores(search.language_model, tuple(labels), search.language_weight, search.length_bonus)
    return ctc.PrefixBeamSearch(search.beam, scores)
