"""What a released model's card and configuration may contain; everything that is read from them is checked here first.

The checksums on a card detect accidental changes. They do not protect against somebody who alters a model on purpose
and computes them again. These checks keep such a model from running code, together with those of `build.py`; a model
that is too large for the machine ends in an error of memory. The types below are the schema: of a card as far as it
is read, and of the preprocessing of each kind of input.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from vitspeech.data.audio.reading import HIGHEST_HZ, LONGEST_S, LOWEST_HZ, SHORTEST_S
from vitspeech.data.utterances.subwords import Subwords
from vitspeech.decoding.keywords import SpottingSettings
from vitspeech.decoding.search import SEARCH_RANGES
from vitspeech.decoding.vocabulary import PIECES, check_vocabulary
from vitspeech.errors import InputError, shown
from vitspeech.trust import KNOWN_PACKAGES

FORMAT = 2  # of the folders that `save` writes


class Metric(NamedTuple):
    """How a metric of a card is spelled in tables (empty if they leave it out), in text, and on the hub."""

    short: str
    text: str
    on_hub: str


METRICS = {  # in the order of the tables
    "test_accuracy": Metric("accuracy", "accuracy", "accuracy"),
    "sequence_accuracy": Metric("sequences", "whole sequences right", "accuracy"),
    "word_accuracy": Metric("words alone", "accuracy over words alone", "accuracy"),
    "unknown_accuracy": Metric("unknown", "accuracy over other words", "accuracy"),
    "unheard_accuracy": Metric("unheard words", "accuracy over words that training did not have", "accuracy"),
    "character_error_rate": Metric("CER", "character error rate", "cer"),
    "word_error_rate": Metric("WER", "word error rate", "wer"),
    "utterance_accuracy": Metric("", "whole utterances right", "accuracy"),
    "frame_accuracy": Metric("frames", "accuracy over frames", "accuracy"),
    "word_f1": Metric("F1", "F1 of words within 50 ms at both ends", "f1"),
    "onset_f1": Metric("", "F1 of words within 50 ms at the start", "f1"),
    "masked_accuracy": Metric("", "accuracy over codes of masked tokens", "accuracy"),
}


class If(NamedTuple):
    """A condition on a value of an annotated type, and what messages call such a value."""

    holds: Callable[[Any], object]
    text: str


def number(low: float, high: float, kind: type = float) -> Any:
    """The type of the numbers within low .. high."""
    return Annotated[kind, If(lambda value: low <= value <= high, f"a number within {low:g} .. {high:g}")]


def is_metrics(values: dict[str, Any]) -> bool:
    """Whether values are metrics, or mappings of them such as those of another test set, with a search of `Search`."""
    plain = float | str | list[float] | None
    return is_search(values.get("search", {})) and all(
        is_text(name) and (fits(value, plain) or (isinstance(value, dict) and is_metrics(value)))
        for name, value in values.items()
    )


def is_search(values: Any) -> bool:
    """Whether a value is a mapping of parameters of `Search`."""
    return fits(values, dict[str, float]) and all(
        name in SEARCH_RANGES and fits(value, number(*SEARCH_RANGES[name], int if name == "beam" else float))
        for name, value in values.items()
    )


def is_class(value: Any) -> bool:
    """Whether a value is a mapping with a `class_path` and, perhaps, `init_args`."""
    if not isinstance(value, dict) or not is_text(value.get("class_path")):
        return False
    return fits(value.get("init_args") or {}, dict[str, Any])


Sum = Annotated[str, If(re.compile(r"[0-9a-f]{64}").fullmatch, "a SHA-256")]
Metrics = Annotated[dict, If(is_metrics, "a mapping from names to metrics")]
ThreeNumbers = Annotated[list[float], If(lambda values: len(values) == 3, "three numbers, one per channel")]
Scales = Annotated[ThreeNumbers, If(lambda values: min(values) >= 1e-6, "three numbers above 0, one per channel")]
Merges = Annotated[
    list[str],
    If(lambda merges: all(merge.count(" ") == 1 for merge in merges), "a list of pairs, each separated by a space"),
]


class Start(TypedDict):
    """The commit and the hardware that a run was started with."""

    commit: str
    hardware: str


class Run(Start):
    """The result of one seed."""

    seed: int
    metrics: Metrics


class Split(TypedDict):
    """The number of items of a split and the sum of their names."""

    items: int
    sha256: Sum


class Source(TypedDict):
    """The file of an installed package whose weights a network reads and does not save."""

    package: str
    file: str
    sha256: Sum


class Card(TypedDict, total=False):
    """The entries of a card that are read anywhere. All but the sums may be missing; others are ignored."""

    sha256: Sum
    config_sha256: Sum
    starts_from_sha256: Sum
    teachers_sha256: list[Sum]
    name: str
    split: str
    commit: str
    hardware: str
    precision: str
    starts_from: str
    weights_from: list[Source]
    teachers: list[str]
    data: Annotated[dict, If(is_class, "a mapping with class_path and init_args")]
    splits: dict[str, Split]
    heard_words: list[str]
    metrics: Metrics
    spotting_choice: Metrics
    parameters: int
    weights: Literal["float16"]
    seeds: Annotated[list[int], If(len, "a list of numbers")]
    recipe: dict[str, Any]
    runs: Annotated[list[Run], If(len, "a list of results with seed, metrics, commit and hardware")]
    minutes: float
    spotting: dict  # see `read_settings`
    resumed: list[Start]
    look_back_ms: float | None
    look_ahead_ms: float | None
    delay_ms: float | None


class Images(TypedDict):
    """The preprocessing of images, see `Model`."""

    image: number(1, 2**16, int)
    mean: ThreeNumbers
    std: Scales


class Audio(TypedDict, total=False):
    """The preprocessing of clips and utterances."""

    sample_rate_hz: number(LOWEST_HZ, HIGHEST_HZ, int)
    seconds: number(SHORTEST_S, LONGEST_S)
    units: Literal["words", "characters", "pieces"]
    merges: Merges


class Symbols(TypedDict):
    """The preprocessing of sequences of symbols."""

    symbols: list  # see `check_labels`


PREPROCESSING = {"image": Images, "sample_rate_hz": Audio, "symbols": Symbols}  # by the key that tells them apart


def check_card(card: Mapping[str, Any]) -> None:
    """Check the entries of a card that are read anywhere."""
    if card.get("format") != FORMAT:
        raise InputError(f"of format {shown(card.get('format'))}; this version of vitspeech reads format {FORMAT}")
    hints = get_type_hints(Card, include_extras=True)
    check_types({name: card[name] for name in hints if name in card}, hints)
    read_settings(card.get("spotting", {}))


def read_settings(values: Any) -> SpottingSettings:
    """The settings of a keyword decoder in a card, as `dataclasses.asdict` writes them. Missing ones are defaults."""
    known = SpottingSettings.__dataclass_fields__
    if unknown := values.keys() - known:
        raise InputError(f"spotting: {shown(min(unknown, key=str))} is unknown; known: {', '.join(known)}")
    try:
        return SpottingSettings(**values)
    except ValueError as error:
        raise InputError(f"spotting: {error}") from None


def check_config(config: Mapping[str, Any]) -> None:
    """Check everything in a configuration but its network, which `build` checks."""
    labels, preprocessing = config["labels"], config["preprocessing"]
    check_labels(labels)
    kinds = [name for name in PREPROCESSING if isinstance(preprocessing, dict) and name in preprocessing]
    if len(kinds) != 1:
        raise InputError(f"preprocessing must be a mapping with one of {', '.join(PREPROCESSING)}")
    hints = get_type_hints(PREPROCESSING[kinds[0]], include_extras=True)
    required = PREPROCESSING[kinds[0]].__required_keys__
    check_types(dict.fromkeys(required) | preprocessing, hints, "preprocessing: ")
    if "symbols" in preprocessing:
        check_labels(preprocessing["symbols"], "preprocessing: symbols")
        if spaced := [symbol for symbol in preprocessing["symbols"] if symbol.split() != [symbol]]:
            raise InputError(f"preprocessing: symbols: {shown(spaced[0])} contains white space")
    if units := preprocessing.get("units"):
        check_vocabulary(labels, units)
        if units == PIECES:
            Subwords(labels, preprocessing.get("merges", ()))
    package, _, name = str(config.get("task", "vitspeech.Classification")).partition(".")
    if not (name.isidentifier() if package == "vitspeech" else name and package not in KNOWN_PACKAGES):
        raise InputError(f"task={shown(config['task'])} is not a task of vitspeech or of a module of yours")


def check_labels(labels: Any, name: str = "labels") -> None:
    """Check that labels, or what the message names, are different texts of one line."""
    if not isinstance(labels, list) or not labels:
        raise InputError(f"{name}={shown(labels)} is not a list of texts")
    seen = set()
    for label in labels:
        if not is_text(label) or not label or label in seen:  # texts first: other values may have no hash
            reason = "is there twice" if is_text(label) and label in seen else "is not a text of one line"
            raise InputError(f"{name}: {shown(label)} {reason}")
        seen.add(label)


def check_types(values: Mapping[str, Any], hints: Mapping[str, Any], where: str = "") -> None:
    """Check values that a file holds against annotated types.

    The hints are those of `get_type_hints`; messages begin with `where`.
    """
    for name, value in values.items():
        if name not in hints:
            raise InputError(f"{where}{shown(name)} is unknown; known: {', '.join(sorted(hints))}")
        if not fits(value, hints[name]):
            raise InputError(f"{where}{name}={shown(value)} is not {type_name(hints[name])}")


def is_text(value: Any) -> bool:
    """Whether a value is UTF-8 text without control characters, which could change what a terminal shows."""
    return isinstance(value, str) and not any(unicodedata.category(character) in ("Cc", "Cs") for character in value)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that was read from a file is of an annotated type. Texts have no control characters."""
    origin, options = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return fits(value, options[0]) and all(condition.holds(value) for condition in options[1:])
    if is_typeddict(hint):
        known = get_type_hints(hint, include_extras=True)
        return isinstance(value, dict) and all(name in value and fits(value[name], known[name]) for name in known)
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in options)
    if origin is Literal:
        return any(value == option and type(value) is type(option) for option in options)
    if origin is tuple:
        return isinstance(value, list | tuple) and len(value) == len(options) and all(map(fits, value, options))
    if origin in (Sequence, list):
        return isinstance(value, list | tuple) and all(fits(item, options[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(is_text(key) and fits(item, options[1]) for key, item in value.items())
    if hint in (int, float):
        kinds = int | float if hint is float else int
        return isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < 1e100
    return is_text(value) if hint is str else hint is Any or isinstance(value, hint)


def type_name(hint: Any) -> str:
    """What messages call the values of an annotated type: its condition's text, or the type as it is written."""
    conditions = [option.text for option in get_args(hint) if isinstance(option, If)]
    if conditions or (isinstance(hint, type) and not get_args(hint)):
        return conditions[-1] if conditions else hint.__name__
    return re.sub(r"\b(typing|vitspeech\.[\w.]+)\.", "", str(hint))
