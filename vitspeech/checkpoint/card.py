"""Reading released models that were written by an earlier version of the package.

Format 1 is that of vitspeech 0.1. `FORMAT` is the format that `save` writes; a card without `format` is of format 1.

Format 2 names the task of a network (`task: vitspeech.Classification`), nests the settings of encoder and decoder
(`encoder: {depth: 6, …}`), and spells `normalizer` and `std`.

What a released model's card and configuration may contain: everything that is read from them is checked here first.

The checksums on a card detect accidental changes. They do not protect against somebody who alters a model on purpose
and computes them again. These checks do, together with those of `network.py`.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from torch import Tensor

from vitspeech.data.audio.reading import HIGHEST_HZ, LONGEST_S, LOWEST_HZ, SHORTEST_S
from vitspeech.data.utterances.module import PIECES, UNITS, check_vocabulary
from vitspeech.data.utterances.subwords import Pieces
from vitspeech.decoding.spotting_settings import read_settings, shown
from vitspeech.errors import InputError
from vitspeech.trust import KNOWN_PACKAGES

FORMAT = 2
RENAMED_CLASSES = {"vitspeech.SpeechLabeller": "vitspeech.SpeechLabeler"}
RENAMED_ARGUMENTS = {"normaliser": "normalizer"}
RENAMED_TENSORS = {"log_mel.deviation": "log_mel.std"}

TASKS = {
    "vitspeech.SpeechLabeler": "vitspeech.Labeling",
    "vitspeech.SpeechRecognizer": "vitspeech.Recognition",
    "vitspeech.SpeechTranscriber": "vitspeech.Transcription",
}
# The flat arguments that format 2 nests, and the defaults of format 1 that differ from `EncoderConfig`'s.
ENCODER = ("depth", "heads", "left", "right", "mlp_ratio", "dropout", "drop_path", "score", "normalizer")
DECODER = ("heads", "mlp_ratio", "dropout", "score", "normalizer")
ENCODER_DEFAULTS = {"vitspeech.ViT": {"depth": 9, "heads": 3}}
ENCODER_OWNERS = (
    "vitspeech.ViT",
    "vitspeech.SpeechClassifier",
    "vitspeech.SpeechLabeler",
    "vitspeech.SpeechRecognizer",
    "vitspeech.SpeechTranscriber",
)


def upgraded_config(config: dict[str, Any]) -> dict[str, Any]:
    """The contents of a format 1 `config.yaml` in format 2."""
    preprocessing = dict(config["preprocessing"])
    if "deviation" in preprocessing:
        preprocessing["std"] = preprocessing.pop("deviation")
    network = upgraded_network(config["network"])
    task = TASKS.get(network["class_path"], "vitspeech.Classification")
    return {"task": task, **config, "network": network, "preprocessing": preprocessing}


def upgraded_network(network: dict[str, Any]) -> dict[str, Any]:
    """The `class_path` and `init_args` of a network in format 2, nested ones included."""
    path = RENAMED_CLASSES.get(network["class_path"], network["class_path"])
    arguments = {}
    for name, value in (network.get("init_args") or {}).items():
        nested = isinstance(value, dict) and "class_path" in value
        arguments[RENAMED_ARGUMENTS.get(name, name)] = upgraded_network(value) if nested else value
    if path in ENCODER_OWNERS:
        arguments = nested_arguments(path, arguments)
    return {**network, "class_path": path, "init_args": arguments}


def nested_arguments(path: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Move a network's flat arguments into `encoder`, and into `decoder` for a transcriber."""
    encoder = {name: arguments[name] for name in ENCODER if name in arguments}
    nested = {"encoder": ENCODER_DEFAULTS.get(path, {}) | encoder}
    if path == "vitspeech.SpeechTranscriber":
        shared = {name: encoder[name] for name in DECODER if name in encoder}
        nested["decoder"] = {"depth": arguments.get("decoder_depth", 2)} | shared
    return {name: arguments[name] for name in arguments if name not in (*ENCODER, "decoder_depth")} | nested


def upgraded_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A format 1 state dictionary with the tensor names of format 2."""
    renamed = {}
    for name, tensor in weights.items():
        for old, new in RENAMED_TENSORS.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        renamed[name] = tensor
    return renamed


LARGEST, DEEPEST = 2**31, 10_000  # of the numbers in a configuration, and of a `depth` among them
MOST_ITEMS = 10**7  # of a data set that is generated
LARGEST_IMAGE = 4096  # pixels
LONGEST_LABEL = 1000  # characters
SEARCH_RANGES = {"beam": (1, 1000), "length_penalty": (0, 10), "ctc_weight": (0, 1)}  # of `Search`
SEARCH_RANGES |= {"language_weight": (0, 100), "length_bonus": (-100, 100)}
HEXADECIMAL = re.compile(r"[0-9a-f]{64}")
Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Whether a value is a string without control characters, which could change what a terminal shows."""
    return isinstance(value, str) and not any(unicodedata.category(character) == "Cc" for character in value)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100


def is_count(value: Any) -> bool:
    """Whether a value is an integer from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_sum(value: Any) -> bool:
    """Whether a value is a SHA-256 in hexadecimal."""
    return isinstance(value, str) and HEXADECIMAL.fullmatch(value) is not None


def is_list_of(check: Check) -> Check:
    """A check whether a value is a list whose items all pass another check."""
    return lambda value: isinstance(value, list) and all(map(check, value))


def is_mapping_to(check: Check) -> Check:
    """A check whether a value is a mapping from text to values that all pass another check."""
    return lambda value: isinstance(value, dict) and all(is_text(key) and check(item) for key, item in value.items())


def is_start(value: Any) -> bool:
    """Whether a value is the record of a start of a run: commit, hardware and versions."""
    return isinstance(value, dict) and all(is_text(value.get(name)) for name in ("commit", "hardware"))


def is_run(value: Any) -> bool:
    """Whether a value is the result of one seed: seed, metrics, commit and hardware."""
    return is_start(value) and is_number(value.get("seed")) and is_metrics(value.get("metrics"))


def is_split(value: Any) -> bool:
    """Whether a value is the number of items of a split and the sum of their names."""
    return isinstance(value, dict) and is_count(value.get("items")) and is_sum(value.get("sha256"))


def is_metric(value: Any) -> bool:
    """Whether a value is a metric: a number, a text, an interval, or a mapping such as that of another test set."""
    return value is None or is_number(value) or is_text(value) or is_list_of(is_number)(value) or is_metrics(value)


def is_metrics(value: Any) -> bool:
    """Whether a value is a mapping from text to metrics, with the parameters of a search that can be carried out."""
    if not is_mapping_to(is_metric)(value):
        return False
    return "search" not in value or is_search(value["search"])


def is_search(value: Any) -> bool:
    """Whether a value is a mapping of the parameters of `Search`."""
    return is_mapping_to(is_number)(value) and all(
        name in SEARCH_RANGES
        and SEARCH_RANGES[name][0] <= number <= SEARCH_RANGES[name][1]
        and (name != "beam" or is_count(number))
        for name, number in value.items()
    )


def is_class(value: Any) -> bool:
    """Whether a value is a mapping with a `class_path` and, perhaps, `init_args`."""
    if not isinstance(value, dict) or not is_text(value.get("class_path")):
        return False
    return is_mapping_to(lambda item: True)(value.get("init_args") or {})


def is_settings(value: Any) -> bool:
    """Whether a value is a mapping with, perhaps, one of thresholds, both from text. `read_settings` checks more."""
    return is_mapping_to(lambda item: not isinstance(item, dict) or all(map(is_text, item)))(value)


ENTRIES: dict[str, tuple[Check, str]] = {  # of a card, as far as they are read
    **dict.fromkeys(("sha256", "config_sha256", "starts_from_sha256"), (is_sum, "a SHA-256")),
    **dict.fromkeys(("name", "split", "commit", "hardware", "precision", "starts_from"), (is_text, "a text")),
    "format": (lambda value: is_count(value) and value >= 1, "a whole number from 1"),
    "data": (is_class, "a mapping with class_path and init_args"),
    "splits": (is_mapping_to(is_split), "a mapping from splits to items and sha256"),
    "heard_words": (is_list_of(is_text), "a list of words"),
    **dict.fromkeys(("metrics", "spotting_choice"), (is_metrics, "a mapping from names to numbers")),
    "parameters": (is_count, "a whole number"),
    "teachers": (is_list_of(is_text), "a list of names"),
    "teachers_sha256": (is_list_of(is_sum), "a list of SHA-256"),
    "weights": (lambda value: value == "float16", "float16"),
    "seeds": (lambda value: is_list_of(is_number)(value) and value, "a list of numbers"),
    "recipe": (is_mapping_to(lambda item: True), "a mapping from keys of a config to values"),
    "runs": (lambda value: is_list_of(is_run)(value) and value, "a list of results with seed, metrics and commit"),
    "minutes": (is_number, "a number"),
    "spotting": (is_settings, "a mapping of settings"),
    "resumed": (is_list_of(is_start), "a list of mappings with commit and hardware"),
    **dict.fromkeys(
        ("look_back_ms", "look_ahead_ms", "delay_ms"), (lambda value: value is None or is_number(value), "a number")
    ),
}


def check_card(card: Mapping[str, Any]) -> None:
    """Check the entries of a card that are read anywhere. All but the sums may be missing, other entries are ignored.

    Raises:
        InputError: If one has the wrong type, or the card is of a later version of the package.
    """
    for name, (check, description) in ENTRIES.items():
        if name in card and not check(card[name]):
            raise InputError(f"{name}={shown(card[name])} is not {description}")
    if card.get("format", 1) > FORMAT:
        raise InputError(
            f"written by a newer version of vitspeech (format {card['format']}; this version reads up to {FORMAT}); "
            "update vitspeech"
        )
    try:
        read_settings(card.get("spotting", {}))
    except InputError as error:
        raise InputError(f"spotting: {error}") from None


def check_config(config: Mapping[str, Any]) -> None:
    """Check a configuration of the current format.

    Raises:
        InputError: If the network, the labels, the preprocessing or the task are not what they must be, or do not fit
            each other.
    """
    check_labels(config["labels"])
    check_preprocessing(config["preprocessing"])
    if units := config["preprocessing"].get("units"):
        check_vocabulary(config["labels"], units)
        if units == PIECES:
            Pieces(config["labels"], config["preprocessing"].get("merges", ()))
    task = config.get("task", "vitspeech.Classification")
    if not is_text(task) or not is_public_or_own(task):
        raise InputError(f"task={shown(task)} is not a task of vitspeech or of a module of yours")
    check_numbers(config["network"])


def is_public_or_own(class_path: str) -> bool:
    """Whether a class path is `vitspeech.NAME` or of a module outside of vitspeech and its libraries."""
    package, _, rest = class_path.partition(".")
    return (package == "vitspeech" and rest.isidentifier()) or (package not in KNOWN_PACKAGES and bool(rest))


def check_labels(labels: Any, name: str = "labels") -> None:
    """Check that labels are different texts.

    Raises:
        InputError: If they are not; the message names them as `name`.
    """
    if not isinstance(labels, list) or not labels:
        raise InputError(f"{name}={shown(labels)} is not a list of texts")
    for label in labels:
        if not is_text(label) or not label or len(label) > LONGEST_LABEL:
            raise InputError(f"{name}: {shown(label)} is not a text of one line")
    if len(set(labels)) < len(labels):
        twice = next(label for number, label in enumerate(labels) if label in labels[:number])
        raise InputError(f"{name}: {shown(twice)} is there twice")


def check_symbols(symbols: Any) -> None:
    """Check that the input symbols of a model are different texts without white space, which separates symbols.

    Raises:
        InputError: If they are not.
    """
    check_labels(symbols, "preprocessing: symbols")
    for symbol in symbols:
        if symbol.split() != [symbol]:
            raise InputError(f"preprocessing: symbols: {shown(symbol)} contains white space")


def check_preprocessing(preprocessing: Any) -> None:
    """Check that preprocessing is that of pictures, of audio or of symbols, see `Model`.

    Raises:
        InputError: If it is not, or a number is out of its range.
    """
    if not isinstance(preprocessing, dict):
        raise InputError("preprocessing is not a mapping")
    ranges = {
        "image": (1, LARGEST_IMAGE, is_count),
        "sample_rate_hz": (LOWEST_HZ, HIGHEST_HZ, is_count),
        "seconds": (SHORTEST_S, LONGEST_S, is_number),
    }
    kinds = {
        "image": {"image", "mean", "std"},
        "sample_rate_hz": {"sample_rate_hz", "seconds", "units", "merges"},
        "symbols": {"symbols"},
    }
    given = [name for name in kinds if name in preprocessing]
    if len(given) != 1:
        raise InputError("preprocessing must have one of image, sample_rate_hz and symbols")
    allowed = kinds[given[0]]
    if foreign := sorted(map(str, preprocessing.keys() - allowed)):
        raise InputError(f"preprocessing: {shown(foreign[0])} is unknown; known: {', '.join(sorted(allowed))}")
    if "symbols" in preprocessing:
        check_symbols(preprocessing["symbols"])
    for name, (low, high, check) in ranges.items():
        value = preprocessing.get(name, low)
        if not check(value) or not low <= value <= high:
            raise InputError(f"preprocessing: {name}={shown(value)} is not a number within {low:g} .. {high:g}")
    for name in ("mean", "std") if "image" in preprocessing else ():
        values = preprocessing.get(name)
        if not is_list_of(is_number)(values) or len(values) != 3 or (name == "std" and min(values) < 1e-6):
            raise InputError(f"preprocessing: {name}={shown(values)} is not three numbers, one per channel")
    if preprocessing.get("units", UNITS[0]) not in UNITS:
        raise InputError(f"preprocessing: units={shown(preprocessing['units'])} is unknown; known: {', '.join(UNITS)}")
    merges = preprocessing.get("merges", [])
    if not is_list_of(is_text)(merges) or not all(merge.count(" ") == 1 for merge in merges):
        raise InputError(f"preprocessing: merges={shown(merges)} is not a list of pairs, each separated by a space")


def check_numbers(value: Any, name: str = "network") -> None:
    """Refuse numbers in nested lists and mappings that no network has: beyond `LARGEST`, or not finite.

    Raises:
        InputError: If there is one, or a key is not a text.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            if not is_text(key):
                raise InputError(f"{name}: the key {shown(key)} is not a text")
            check_numbers(item, key)
    elif isinstance(value, list):
        for item in value:
            check_numbers(item, name)
    elif isinstance(value, int | float) and not abs(value) <= (DEEPEST if name.endswith("depth") else LARGEST):
        raise InputError(f"{name}={shown(value)} is out of range")


def check_arguments(kind: type, arguments: Mapping[str, Any]) -> None:
    """Check arguments from a card against the types that a constructor's signature states.

    Raises:
        InputError: If one has another type, is unknown, or is beyond `MOST_ITEMS`.
    """
    hints = get_type_hints(kind.__init__)
    for name, value in arguments.items():
        if name not in hints:
            raise InputError(f"{kind.__name__} has no argument {shown(name)}")
        if not fits(value, hints[name]):
            raise InputError(f"{kind.__name__}: {name}={shown(value)} is not {type_name(hints[name])}")
        if is_number(value) and abs(value) > MOST_ITEMS and name != "seed" and name != "drawn_from":
            raise InputError(f"{kind.__name__}: {name}={shown(value)} is above {MOST_ITEMS:,}")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type: a class, a union, `Literal`, `Sequence`, `list` or `tuple`."""
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in options)
    if origin is Literal:
        return any(value == option and type(value) is type(option) for option in options)
    if origin is tuple:
        return isinstance(value, list | tuple) and len(value) == len(options) and all(map(fits, value, options))
    if origin in (Sequence, list):
        return isinstance(value, list | tuple) and all(fits(item, options[0]) for item in value)
    if hint in (int, float):
        return is_number(value) and (hint is float or isinstance(value, int))
    return hint is Any or isinstance(value, hint)


def type_name(hint: Any) -> str:
    """An annotated type as it is written."""
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")
