"""The comparison as numbers: one JSON of everything, one CSV with a row for each number.

Shapes: L layers, H heads.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from vitspeech.receptive.comparison import Result, State
from vitspeech.receptive.fields.extent import Numbers
from vitspeech.receptive.fields.layer_numbers import LayerNumbers

COLUMNS = ("model", "trained", "size", "layer", "depth", "of", "number", "value", "low", "high", "unit")
OF = {
    "cumulative": "input to layer",
    "cumulative_cut": "input to layer, skips cut",
    "block": "layer before to layer",
    "block_cut": "layer before to layer, skips cut",
    "frequency": "frequency",
}
HEAD_NUMBERS = (
    "distance",
    "relative_distance",
    "entropy",
    "convolution_likeness",
    "diagonality",
    "look_back",
    "look_ahead",
)


def length_unit(result: Result) -> str:
    """Of lengths: px of pictures, ms of speech."""
    return "ms" if result.subject.hears else "px"


def unit_of(number: str, lengths: str) -> str:
    """The unit of a number by its name, where lengths are px or ms; "1" is none."""
    if number.endswith("_hz"):
        return "Hz"
    if number in ("anisotropy", "own_share", "ahead_share", "of_theoretical", "relative_distance", "entropy"):
        return "1"
    if number in ("convolution_likeness", "diagonality", "accuracy", "effective_bins"):
        return "1"
    return f"{lengths}²" if number == "effective_pixels" else lengths


def as_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Everything that was measured, with an interval of 95 % behind each estimate: [value, low, high]."""
    return [model(result) for result in results]


def model(result: Result) -> dict[str, Any]:
    """One model."""
    subject, unit = result.subject, length_unit(result)
    found = {
        "name": subject.name,
        "parameters": result.parameters,
        "unit": unit,
        "missing": result.missing,
        "states": [state_of(state) for state in result.states],
    }
    if result.heads is not None:
        heads = {name: getattr(result.heads, name) for name in HEAD_NUMBERS}
        numbers = {name: values.tolist() for name, values in heads.items() if values is not None}
        found["attention"] = {"layers": result.heads.layers, **numbers}
    if result.visible is not None:
        cell = result.main.layers[0].cell
        found["visible"] = {
            "inputs": result.visible.count,
            f"radii_{unit}": [radius * cell for radius in result.visible.radii],
            "accuracy": result.visible.accuracy,
            "interval_95": result.visible.interval,
            f"keeps_90_{unit}": {name: radius * cell for name, radius in result.visible.keeps().items()},
        }
    return found


def state_of(state: State) -> dict[str, Any]:
    """One model at one size, trained or not."""
    return {"trained": state.trained, "size": state.size, "layers": [layer_of(layer) for layer in state.layers]}


def layer_of(layer: LayerNumbers) -> dict[str, Any]:
    """One layer; a theoretical reach of `null` is without a limit, a missing one is not known."""
    found: dict[str, Any] = {"name": layer.name, "depth": layer.depth, "stride": layer.stride}
    if layer.reach is not None:
        found["theoretical_reach"] = [length if isfinite(length) else None for length in layer.reach]
    found["energy_outside_theory"] = layer.fields.cumulative.outside
    return found | {name: numbers for name in OF if (numbers := getattr(layer, name)) is not None}


def rows(results: Sequence[Result]) -> Iterator[tuple]:
    """A row of `COLUMNS` for each number; cells without a meaning are empty."""
    for result in results:
        for state in result.states:
            for layer in state.layers:
                yield from rows_of(result, state, layer)
        yield from rows_of_attention(result)
        yield from rows_of_answers(result)


def rows_of(result: Result, state: State, layer: LayerNumbers) -> Iterator[tuple]:
    """What is said of one layer in one state."""
    unit = length_unit(result)
    place = (result.subject.name, state.trained, state.size, layer.name, f"{layer.depth:.3f}")
    for name, length in zip(("reach_before", "reach_after"), layer.reach or (), strict=False):
        yield *place, "theoretical", name, length, "", "", unit
    for field, description in OF.items():
        numbers: Numbers = getattr(layer, field) or {}
        for name, estimate in numbers.items():
            yield *place, description, name, *estimate, unit_of(name, unit)


def rows_of_attention(result: Result) -> Iterator[tuple]:
    """Each head's numbers."""
    if result.heads is None:
        return
    layers = result.heads.layers
    for name in HEAD_NUMBERS:
        values = getattr(result.heads, name)
        for layer, heads in zip(layers, [] if values is None else values.tolist(), strict=False):
            for head, value in enumerate(heads):
                place = (result.subject.name, result.main.trained, result.main.size, layer, "")
                yield *place, f"attention, head {head}", name, value, "", "", unit_of(name, length_unit(result))


def rows_of_answers(result: Result) -> Iterator[tuple]:
    """Accuracy against what is visible, and the radius that keeps 90 % of it."""
    if result.visible is None:
        return
    unit, cell = length_unit(result), result.main.layers[0].cell
    place = (result.subject.name, result.main.trained, result.main.size, "", "")
    for name, accuracies in result.visible.accuracy.items():
        intervals = result.visible.interval[name]
        for radius, value, interval in zip(result.visible.radii, accuracies, intervals, strict=True):
            yield *place, f"visible within {radius * cell:g} {unit}, {name} outside", "accuracy", value, *interval, "1"
    for name, radius in result.visible.keeps().items():
        yield *place, f"visible window, {name} outside", "keeps_90", radius * cell, "", "", unit
