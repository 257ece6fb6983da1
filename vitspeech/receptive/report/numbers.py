"""The comparison as numbers: one JSON file with everything, one CSV file with a row for each number."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from vitspeech.checkpoint.model import finite
from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.differences import MIXED, MODELS, SIZE, TRAINING, Pair
from vitspeech.receptive.fields.layer_numbers import LayerNumbers

COLUMNS = (
    *("model", "trained", "size", "layer", "depth", "of", "number", "value", "low", "high", "uniform", "unit", "note"),
)
OF = {
    "cumulative": "input to layer",
    "cumulative_cut": "input to layer, without residual paths",
    "block": "previous layer to layer",
    "block_cut": "previous layer to layer, without residual paths",
    "frequency": "frequency",
}
UNIFORM_OF = {"cumulative_cut": "cumulative", "block_cut": "block"}  # others have their own uniform field
AS_INITIALIZED = "as initialized, residual branches off"
NOTES = {"accuracy": "", "agreement": "agreement with the model's own predictions for complete inputs"}
IN_TIME = ("diagonality", "look_back", "look_ahead")
HEAD_NUMBERS = ("distance", "relative_distance", "entropy", "convolution_likeness", *IN_TIME)
DIMENSIONLESS = {
    *("anisotropy", "own_share", "ahead_share", "of_theoretical", "relative_distance", "entropy"),
    *("convolution_likeness", "diagonality", "accuracy", "agreement", "effective_bins"),
}


def unit_of(number: str, lengths: str) -> str:
    """The unit of a number by its name, where lengths are in px or ms; "1" for dimensionless numbers."""
    if number.endswith("_hz"):
        return "Hz"
    if number in DIMENSIONLESS:
        return "1"
    return f"{lengths}²" if number == "effective_pixels" else lengths


def model_json(result: Result) -> dict[str, Any]:
    """The measurements of one model; estimates are lists [value, low, high] with the 95 % interval.

    `visible` has `agreement` in place of `accuracy` if the labels do not match.
    """
    subject = result.subject
    values = {
        "name": subject.name,
        "parameters": result.parameters,
        "unit": subject.unit,
        "missing": result.missing,
        "states": [state_json(state) for state in result.states],
    }
    if result.heads is not None:
        heads = {name: getattr(result.heads, name) for name in HEAD_NUMBERS}
        numbers = {name: finite(measure.tolist()) for name, measure in heads.items() if measure is not None}
        values["attention"] = {"layers": result.heads.layers, **numbers}
    if result.visible is not None:
        values["visible"] = {
            "inputs": result.visible.count,
            f"radii_{subject.unit}": result.radii,
            result.visible.quantity: result.visible.accuracy,
            "interval_95": result.visible.interval,
            f"keeps_90_{subject.unit}": result.keeps,
        }
    return values


def state_json(state: State) -> dict[str, Any]:
    """The measurements of one model at one input size, trained or untrained.

    `zero_init` is the note about residual branches that were switched on, `as_initialized` the last layer without that;
    both are left out of other states.
    """
    values = {"trained": state.trained, "size": state.size, "layers": [layer_json(layer) for layer in state.layers]}
    if state.zero_init is not None:
        values |= {"zero_init": state.zero_init, "as_initialized": layer_json(state.as_initialized)}
    return values


def layer_json(layer: LayerNumbers) -> dict[str, Any]:
    """The measurements of one layer.

    A theoretical reach of `null` is unlimited; the key is left out if it is unknown. `units` are the measured ones,
    `offsets` the first and the last one measured, along the rows; `uniform` has the numbers of a uniform field.
    """
    values: dict[str, Any] = {"name": layer.name, "depth": layer.depth, "stride": layer.stride}
    if layer.theoretical is not None:
        values["theoretical_reach"] = [length if isfinite(length) else None for length in layer.theoretical]
    field = layer.fields.cumulative
    values |= {"energy_outside_theory": field.outside, "units": field.probe_units}
    values["offsets"] = [layer.cell * end for end in field.window[0]]
    values |= {name: numbers for name in OF if (numbers := getattr(layer, name)) is not None}
    return values | {"uniform": layer.uniform}


def pair_json(pair: Pair) -> dict[str, Any]:
    """The paired differences of two measurements; a ratio is the first number divided by the second.

    `not_compared` is the reason why the visible windows of two models are left out.
    """
    places = [
        {"name": result.subject.name, "trained": state.trained, "size": state.size}
        for result, state in (pair.first, pair.second)
    ]
    numbers = {
        d.number: {"first": d.first, "second": d.second, "difference": d.change, "ratio": d.ratio}
        for d in pair.differences
    }
    values = {"kind": pair.kind, "first": places[0], "second": places[1], "offsets": pair.window, "numbers": numbers}
    return values | ({"not_compared": MIXED} if pair.mixes_agreement else {})


def csv_rows(results: Sequence[Result], compared: Sequence[Pair]) -> Iterator[tuple]:
    """One row of `COLUMNS` for each number; cells that do not apply are empty."""
    for result in results:
        for state in result.states:
            for layer in state.layers:
                yield from layer_rows(result, state, layer)
            if state.as_initialized is not None:
                yield from layer_rows(result, state, state.as_initialized, suffix=f", {AS_INITIALIZED}")
        yield from attention_rows(result)
        yield from visible_rows(result)
    for pair in compared:
        yield from difference_rows(pair)


def layer_rows(result: Result, state: State, layer: LayerNumbers, *, suffix: str = "") -> Iterator[tuple]:
    """The numbers of one layer in one state; the note says which residual branches were switched on."""
    unit, note = result.subject.unit, "" if suffix else state.zero_init or ""
    place = (result.subject.name, state.trained, state.size, layer.name, f"{layer.depth:.3f}")
    for name, length in zip(("reach_before", "reach_after"), layer.theoretical or (), strict=False):
        yield *place, f"theoretical{suffix}", name, length, "", "", "", unit, note
    for field, description in OF.items():
        for name, estimate in (getattr(layer, field) or {}).items():
            uniform = layer.uniform[UNIFORM_OF.get(field, field)][name]
            yield *place, f"{description}{suffix}", name, *estimate, uniform, unit_of(name, unit), note


def attention_rows(result: Result) -> Iterator[tuple]:
    """The numbers of each attention head."""
    note = result.main.zero_init or ""
    for name in HEAD_NUMBERS if result.heads is not None else ():
        values = getattr(result.heads, name)
        for layer, heads in zip(result.heads.layers, [] if values is None else values.tolist(), strict=False):
            for head, value in enumerate(heads):
                place = (result.subject.name, result.main.trained, result.main.size, layer, "")
                unit = unit_of(name, result.subject.unit)
                yield *place, f"attention, head {head}", name, value, "", "", "", unit, note


def visible_rows(result: Result) -> Iterator[tuple]:
    """The accuracy or agreement for each visible window, and the window that keeps 90 % of it."""
    if result.visible is None:
        return
    quantity, note = result.visible.quantity, NOTES[result.visible.quantity]
    unit = result.subject.unit
    place = (result.subject.name, result.main.trained, result.main.size, "", "")
    for name, accuracies in result.visible.accuracy.items():
        intervals = result.visible.interval[name]
        for radius, value, interval in zip(result.radii, accuracies, intervals, strict=True):
            window = f"visible within {radius:g} {unit}, {name} outside"
            yield *place, window, quantity, value, *interval, "", unit_of(quantity, unit), note
    for name, estimate in result.keeps.items():
        yield *place, f"visible window, {name} outside", "keeps_90", *estimate, "", unit, note


def difference_rows(pair: Pair) -> Iterator[tuple]:
    """The paired differences of two measurements; `of` names the one that is subtracted."""
    (result, state), (other, before) = pair.first, pair.second
    unit = result.subject.unit
    subtracted = {TRAINING: "untrained", SIZE: f"size {before.size:g}", MODELS: other.subject.name}[pair.kind]
    place = (result.subject.name, state.trained, state.size, state.layers[-1].name, "")
    low, high = pair.window
    for found in pair.differences:
        within, note = f", within {low:g} to {high:g} {unit}", ""
        if found.number.startswith("keeps"):
            within, note = "", NOTES[result.visible.quantity]
        yield *place, f"minus {subtracted}{within}", found.number, *found.change, "", unit, note
