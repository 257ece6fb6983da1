"""The settings of a keyword decoder, which a model's card may hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from vitspeech.decoding.keywords import check_words, threshold
from vitspeech.errors import InputError

LONGEST_S = 60.0  # of a duration in the settings


@dataclass(frozen=True)
class SpottingSettings:
    """Every number of a `KeywordDecoder`. Durations are rounded to tokens.

    Args:
        thresholds: Minimum probability of a detection, 0 .. 1: of every word, or a mapping with that of each.
        refractory_s: Minimum time in seconds between the ends of two detections, of whichever words; 0 keeps all.
        smoothing_s: Duration over which the posteriors of tokens are averaged; at least one token.
        token_probability: Minimum smoothed posterior for a token to belong to a word.
        pause_s: A word ends after this many seconds without a token of it; at least one token.
        shortest_s: Minimum duration of a word, rounded up.
        used_probability: Probability from which the tokens of a candidate don't count for later ones.
        least_fraction: A sum of logits is divided by at least this fraction of a clip's tokens, above 0.

    Raises:
        InputError: If a number is out of its range; the message names it.
    """

    thresholds: Mapping[str, float] | float = 0.8
    refractory_s: float = 0.0
    smoothing_s: float = 0.12
    token_probability: float = 0.6
    pause_s: float = 0.08
    shortest_s: float = 0.15
    used_probability: float = 0.8
    least_fraction: float = 0.7

    def __post_init__(self) -> None:
        if isinstance(self.thresholds, Mapping):
            for label, threshold in self.thresholds.items():
                check_probability(f"threshold of {shown(label)}", threshold)
        else:
            check_probability("threshold", self.thresholds)
        for name in ("token_probability", "used_probability", "least_fraction"):
            check_probability(name, getattr(self, name))
        if self.least_fraction == 0:
            raise InputError("least_fraction=0 divides a sum of no logits by 0; give a larger one")
        for name in ("refractory_s", "smoothing_s", "pause_s", "shortest_s"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= LONGEST_S:
                raise InputError(f"{name}={shown(value)} is not a number of seconds within 0 .. {LONGEST_S:g}")

    def threshold(self, label: str) -> float:
        """The threshold of a word.

        Raises:
            InputError: If the thresholds lack it.
        """
        try:
            return threshold(self.thresholds, label)
        except ValueError as error:
            raise InputError(str(error)) from None


def check_thresholds(settings: SpottingSettings, labels: Iterable[str]) -> None:
    """Check that the thresholds are those of the words among the labels.

    Raises:
        InputError: If one is missing, or is of another word.
    """
    try:
        check_words(settings.thresholds, labels)
    except ValueError as error:
        raise InputError(str(error)) from None


def check_probability(name: str, value: float) -> None:
    """Check that a number is within 0 .. 1.

    Raises:
        InputError: If it is not.
    """
    if not is_number(value) or not 0 <= value <= 1:
        raise InputError(f"{name}={shown(value)} is not within 0 .. 1")


def read_settings(values: Any) -> SpottingSettings:
    """The settings in a card: a mapping from their names, as `dataclasses.asdict` writes it. Missing ones are defaults.

    Raises:
        InputError: If it is not a mapping, a name is unknown, or a number is out of its range.
    """
    if not isinstance(values, dict):
        raise InputError(f"{shown(values)} is not a mapping of settings")
    known = [field.name for field in fields(SpottingSettings)]
    if unknown := values.keys() - set(known):
        raise InputError(f"{shown(min(unknown, key=str))} is unknown; known: {', '.join(known)}")
    return SpottingSettings(**values)


def shown(value: Any) -> str:
    """A value as messages show it, in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_number(value: Any) -> bool:
    """Whether a value is a number, and not NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
