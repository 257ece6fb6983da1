"""The tables of the documentation, from the `metrics.json` of a report: header and rows of cells.

A number is followed by its 95 % interval, then by that of a uniform field.
"""

from collections.abc import Sequence
from typing import Any

Table = tuple[list[str], list[list[str]]]
REPLACEMENTS = ("mean", "blur", "shuffle")
MAIN_SIZES = (32, 1.0)  # px or s
NAMES = {
    "side_50": "50 % of the energy",
    "side_90": "90 % of the energy",
    "span_50": "50 % of the energy",
    "span_90": "90 % of the energy",
    "back_90": "90 % of the past",
    "ahead_90": "90 % of the look-ahead",
} | {f"keeps_90_{name}": f"half-window, {name}" for name in REPLACEMENTS}


def fields_table(metrics: dict[str, Any]) -> Table:
    """The fields of the last layer, one row per model: trained, before training, and at the second size."""
    rows = []
    images = metrics["models"][0]["unit"] == "px"
    for model in metrics["models"]:
        states = {(state["trained"], state["size"] in MAIN_SIZES): state["layers"][-1] for state in model["states"]}
        trained, larger, untrained = states[True, True], states[True, False], states[False, True]
        reach, cells = trained["theoretical_reach"], [f"`{model['name']}`"]
        if images:
            cells.append("unlimited" if None in reach else f"{sum(reach) + 1:.0f}")
            shown = [(trained, "side_50"), (trained, "side_90")]
            shown += [(untrained, "side_50"), (untrained, "side_90"), (larger, "side_50"), (larger, "side_90")]
        else:
            cells.append(", ".join("unlimited" if side is None else f"{side:,.0f}" for side in reach))
            shown = [(trained, name) for name in ("back_90", "ahead_90", "span_50", "span_90")]
            shown += [(untrained, "span_90"), (larger, "span_90")]
        rows.append([*cells, *(beside_uniform(layer, name, 1 if images else 0) for layer, name in shown)])
    if images:
        extents = [f"{part} %{state}" for state in ("", " before training", " at 48 px") for part in (50, 90)]
        return ["last layer, px", "theoretical", *extents], rows
    sides = ["90 % of the past", "90 % of the look-ahead", "50 % (span)", "90 % (span)"]
    return ["last layer, ms", "theoretical: back, ahead", *sides, "90 % before training", "90 % at 1.5 s"], rows


def windows_table(metrics: dict[str, Any]) -> Table:
    """The window that keeps 90 % of the accuracy for each replacement of the rest, one row per model."""
    unit = metrics["models"][0]["unit"]
    rows = []
    for model in metrics["models"]:
        kept = model["visible"][f"keeps_90_{unit}"]
        accuracy = 100 * model["visible"]["accuracy"]["mean"][-1]
        numbers = [with_interval(kept[name], 1 if unit == "px" else 0) for name in REPLACEMENTS]
        rows.append([f"`{model['name']}`", f"{accuracy:.1f} %", *numbers])
    return [f"half-window for 90 % of the accuracy, {unit}", "accuracy", *REPLACEMENTS], rows


def differences_table(metrics: dict[str, Any]) -> Table:
    """The paired differences between models, one row per pair and number that is reported in the text."""
    unit = metrics["models"][0]["unit"]
    digits, shown = (1, ("side_50", "side_90")) if unit == "px" else (0, ("span_90",))
    rows = []
    for pair in metrics["differences"]:
        if pair["kind"] != "models":
            continue
        low, high = (f"{end:,.0f}".replace("-", "−") for end in pair["offsets"])
        models = [f"`{pair[place]['name']}`" for place in ("first", "second")]
        for name, numbers in pair["numbers"].items():
            if name not in shown and not name.startswith("keeps"):
                continue
            what = NAMES[name] + (f", {low} to {high} {unit}" if name in shown else "")
            values = [f"{numbers[place][0]:,.{digits}f}" for place in ("first", "second")]
            rows.append([*models, what, *values, signed(numbers["difference"], digits)])
    return ["first", "second", f"number, {unit}", "first", "second", "first − second"], rows


def beside_uniform(layer: dict[str, Any], name: str, digits: int) -> str:
    """A number of a layer with its interval, and that of a uniform field."""
    uniform = layer["uniform"]["cumulative"][name]
    return f"{with_interval(layer['cumulative'][name], digits)}; {uniform:,.{digits}f}"


def with_interval(numbers: Sequence[float], digits: int) -> str:
    """A number with its 95 % interval."""
    value, low, high = (f"{number:,.{digits}f}" for number in numbers)
    return f"{value} ({low}–{high})"


def signed(numbers: Sequence[float], digits: int) -> str:
    """A difference with its 95 % interval."""
    value, low, high = (f"{round(number, digits) + 0:+,.{digits}f}".replace("-", "−") for number in numbers)
    return f"{value} ({low} to {high})"
