"""What `model.json` may hold, as a JSON Schema, and the check of a value against one.

`run.py` and `vitspeech demo` check with it, and so does the page, beside which `demo` writes it. Of JSON Schema
(json-schema.org), only the keywords that `mistakes` knows are used.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

# One line of text, without characters that move the cursor or change the direction of what follows.
LINE = r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ud800-\udfff]*$"
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": int | float}
MOST_MISTAKES = 20  # that are looked for, to find which of several schemas fits best


def text(shortest: int = 0) -> dict[str, Any]:
    """One line of text."""
    return {"type": "string", "minLength": shortest, "maxLength": 1000, "pattern": LINE}


def number(low: float, high: float, kind: str = "number") -> dict[str, Any]:
    """A number within low .. high; the kind `integer` is a whole one."""
    return {"type": kind, "minimum": low, "maximum": high}


def array(items: Mapping[str, Any], least: int = 0, most: int = 1000, **others: Any) -> dict[str, Any]:
    """A list of so many values."""
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, **others}


def record(entries: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    """A mapping with these entries, and perhaps the optional ones."""
    entries, required = {**entries, **optional}, list(entries)
    return {"type": "object", "properties": entries, "required": required, "additionalProperties": False}


def mapping(names: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping whose names are not known."""
    return {"type": "object", "propertyNames": names, "additionalProperties": values}


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What fits a schema, or null."""
    return {"anyOf": [schema, {"enum": [None]}]}


NAME, COUNT, SAMPLES = text(1), number(0, 100_000, "integer"), number(1, 2**25, "integer")
RATE_HZ, DURATION_MS = number(1000, 384_000, "integer"), number(0, 600_000)
PROBABILITY, SECONDS, POSITIVE = number(0, 1), number(0, 60), number(0, 1e30)
SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
NAMES = array(NAME, 1, 50_000, uniqueItems=True)
FILE = {"type": "string", "pattern": r"^(model\.onnx|decoder\.onnx|[A-Za-z0-9_]{1,60}\.py)$"}
CHECKSUMS = record({"sha256": SHA256, "card_sha256": SHA256})
PARITY = record({"difference": POSITIVE, "largest": POSITIVE, "rows": POSITIVE},
                attention_difference=POSITIVE, of=text())  # fmt: skip
MEASURED = mapping(NAME, POSITIVE)
SPOTTING = {
    "thresholds": {"anyOf": [PROBABILITY, mapping(NAME, PROBABILITY)]},
    "smoothing_s": number(0, 10),
    **dict.fromkeys(("refractory_s", "pause_s", "shortest_s"), SECONDS),
    **dict.fromkeys(("token_probability", "used_probability"), PROBABILITY),
    "least_fraction": number(1e-6, 1),
}


def model(kind: str, *graphs: str, entries: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    """The schema of models of one kind."""
    all_have = {
        "format": {"enum": [1]},
        "kind": {"enum": [kind]},
        "name": or_null(text()),
        "labels": NAMES,
        "source": or_null(CHECKSUMS),
        "parity": PARITY,
        "files": mapping(FILE, SHA256) | {"required": ["model.onnx", *graphs], "maxProperties": 30},
    }
    int8 = record({"fp32": MEASURED, "int8": MEASURED}, note=text())
    return record({**all_have, **entries}, int8=int8, **optional)


def attention(*counts: str) -> dict[str, Any]:
    """The outputs with attention weights, and what each has."""
    return array(record({"output": NAME, **dict.fromkeys(counts, COUNT)}))


IMAGES = {
    "side": number(1, 4096, "integer"),
    "mean": array(number(-1e6, 1e6), 3, 3),
    "std": array(number(1e-6, 1e6), 3, 3),
    "crop": text(),
    "resampling": text(),
    "attention": attention("heads"),
}
CLIPS = {"sample_rate_hz": RATE_HZ, "samples": number(1, 2**20, "integer"), "length": {"enum": ["any", "fixed"]}}
STREAM = {
    "sample_rate_hz": RATE_HZ,
    "hop_samples": SAMPLES,
    "window_samples": SAMPLES,
    "lead_in_samples": number(0, 2**25, "integer"),
    "first_step": COUNT,
    "steps_ahead": number(0, 10_000, "integer"),
    "state_size": SAMPLES,
    "first_row_ms": number(-600_000, 600_000),
    "row_ms": number(1, 60_000),
    "delay_ms": DURATION_MS,
    "attention": attention("heads", "left", "right", "wait"),
}
SEQUENCES = {
    "start_unit": COUNT,
    "end": COUNT,
    "longest_input": or_null(COUNT),
    "longest_output": record({"per_token": number(0, 100, "integer"), "besides": COUNT, "most": or_null(COUNT)}),
    "separator": {"enum": ["", " "]},
    "ctc": {"enum": [True, False]},
    "cache_shape": array(COUNT, 5, 5),
}
RECORDINGS = {"sample_rate_hz": RATE_HZ, "hop_samples": SAMPLES, "window_samples": SAMPLES}
SPOTTERS = {
    "task": {"enum": ["classification"]},
    "labels": NAMES | {"maxItems": 10_000},  # these two and the smoothing bound the memory of a decoder
    "row_ms": number(5, 60_000),
    "clip_samples": SAMPLES,
    "spotting": record(SPOTTING),
}
OTHERS = {"task": {"enum": ["labeling", "recognition"]}, "shortest_ms": DURATION_MS, "least_probability": PROBABILITY}
SCHEMA = {
    "anyOf": [
        model("images", entries=IMAGES, grid=array(COUNT, 2, 2), class_tokens=COUNT),
        model("clips", entries=CLIPS, shortest_samples=SAMPLES, fixed_because=text()),
        model("stream", entries=STREAM | SPOTTERS),
        model("stream", entries=STREAM | OTHERS),
        model("encoder-decoder", "decoder.onnx", entries=SEQUENCES | RECORDINGS),
        model("encoder-decoder", "decoder.onnx", entries=SEQUENCES | {"symbols": NAMES}),
    ]
}


def mistakes(value: Any, schema: Mapping[str, Any], name: str) -> Iterator[str]:
    """What of a value that JSON can express does not fit a schema; `name` is what the sentences call the value."""
    if "anyOf" in schema:
        yield from min((list(islice(mistakes(value, each, name), MOST_MISTAKES)) for each in schema["anyOf"]), key=len)
    elif "enum" in schema:
        if not any(value == each and type(value) is type(each) for each in schema["enum"]):
            yield f"{name} is {value!r:.60}"
    elif not isinstance(value, TYPES[schema["type"]]) or isinstance(value, bool):
        yield f"{name}={value!r:.60} is not of the type {schema['type']}"
    elif isinstance(value, str):
        is_long_enough = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        if not is_long_enough or not re.fullmatch(schema["pattern"], value):
            yield f"{name}={value!r:.60} is not a text that may stand there"
    elif isinstance(value, int | float):
        if not schema["minimum"] <= value <= schema["maximum"]:
            yield f"{name}={value!r:.60} is not within {schema['minimum']:g} .. {schema['maximum']:g}"
    elif isinstance(value, list):
        if not schema["minItems"] <= len(value) <= schema["maxItems"]:
            yield f"{name} has {len(value):,} entries"
        elif schema.get("uniqueItems") and len(set(map(repr, value))) < len(value):
            yield f"{name} has an entry twice"
        else:
            for place, each in enumerate(value):
                yield from mistakes(each, schema["items"], f"{name}[{place}]")
    else:
        yield from (f"{name} has no {key}" for key in schema.get("required", ()) if key not in value)
        if len(value) > schema.get("maxProperties", len(value)):
            yield f"{name} has {len(value):,} entries"
        for key, each in value.items():
            yield from mistakes(key, schema.get("propertyNames", NAME), f"{name}: name")
            if inner := schema.get("properties", {}).get(key, schema["additionalProperties"]):
                yield from mistakes(each, inner, f"{name}: {key}")
            else:
                yield f"{name}: {key!r:.60} is unknown"
