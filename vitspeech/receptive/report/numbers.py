"""The comparison as numbers: everything as JSON, and the main results as a table with a column for each model.

In the table a number is followed by its 95 % interval in brackets; fields are those of the last measured layer.
"""

from collections.abc import Iterator, Sequence
from math import isfinite, isnan
from typing import Any, NamedTuple

from vitspeech.checkpoint.model import finite
from vitspeech.metrics.intervals import Estimate
from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.differences import MIXED, Pair
from vitspeech.receptive.fields.layer_numbers import LayerNumbers

FIELDS = ("cumulative", "cumulative_cut", "block", "block_cut", "frequency")  # of `LayerNumbers`
SIZES = {  # numbers of the last layer with their units
    "px": {
        "50 % of the energy (side)": ("side_50", "px"),
        "90 % of the energy (side)": ("side_90", "px"),
    },
    "ms": {
        "90 % of the past's energy": ("back_90", "ms"),
        "90 % of the look-ahead's energy": ("ahead_90", "ms"),
        "90 % of the energy (span)": ("span_90", "ms"),
    },
}
FURTHER_SIZES = {
    "px": {"effective area": ("effective_pixels", "px²")},
    "ms": {
        "50 % of the energy (span)": ("span_50", "ms"),
        "look-ahead, fraction of the energy": ("ahead_share", ""),
    },
}
ROWS = 9  # of the table that are shown
WIDEST = {"px": "side_90", "ms": "span_90"}
DIGITS = {"px": 1, "": 2}  # of other units none


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
        values["attention"] = {
            name: measure if name == "layers" else finite(measure.tolist())
            for name, measure in vars(result.heads).items()
            if measure is not None
        }
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
    values |= {name: numbers for name in FIELDS if (numbers := getattr(layer, name)) is not None}
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


class Table(NamedTuple):
    """A table with its column headings; the first cell of a row is its heading."""

    columns: list[str]
    rows: list[list[str]]

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def main_results(results: Sequence[Result]) -> tuple[Table, Table]:
    """One column per model, one row per number, a dash where it was not measured.

    The first table has the `ROWS` most important rows, the second the others.
    """
    cells = [dict(model_cells(result)) for result in results]
    places = [(place, heading) for column in cells for place, heading in enumerate(column)]
    headings = dict.fromkeys(heading for _, heading in sorted(places, key=lambda each: each[0]))
    rows = [[heading, *(column.get(heading) or "–" for column in cells)] for heading in headings]
    rows = [row for row in rows if any(cell != "–" for cell in row[1:])]
    columns = ["", *(result.subject.name for result in results)]
    return Table(columns, rows[:ROWS]), Table(columns, rows[ROWS:])


def model_cells(result: Result) -> Iterator[tuple[str, str | None]]:
    """The headings and cells of one model, the most important first; `None` for a state or field not measured."""
    unit, last = result.subject.unit, result.main.layers[-1]
    widest = WIDEST[unit]
    yield "state", "trained" if result.main.trained else "untrained"
    if result.visible is not None and not result.visible.agreement:
        low, high = (100 * end for end in result.visible.whole_interval)
        yield "accuracy on these inputs", f"{100 * result.visible.whole:.1f} ({low:.1f}–{high:.1f}) %"
    yield "theoretical field", theoretical(result)
    for heading, (number, of_number) in SIZES[unit].items():
        yield heading, interval(last.cumulative[number], of_number)
    yield "90 % of a uniform field", f"{rounded(last.uniform['cumulative'][widest], unit)} {unit}"
    before = last_of(result.untrained) if result.subject.trained else None
    yield "90 % before training", interval(before[widest], unit) if before else None
    windows = dict(window_cells(result))
    yield from list(windows.items())[:1]
    if result.heads is not None:
        # The distance of a head without weights, and both ratios of one that sees its own token only, are undefined.
        distance, relative = (float(getattr(result.heads, of).nanmean()) for of in ("distance", "relative_distance"))
        ratio = "" if isnan(relative) else f" ({relative:.2f} × uniform)"
        yield "mean attention distance", f"{distance:.3g} {unit}{ratio}"
    yield from list(windows.items())[1:]
    switched_on = next((state for state in (result.main, result.untrained) if state and state.zero_init), None)
    others = {
        "90 % without residual paths": last.cumulative_cut,
        "90 % as initialized (residual branches off)": switched_on and switched_on.as_initialized.cumulative,
        f"90 % at {result.larger and result.subject.size_text(result.larger.size)}": last_of(result.larger),
    }
    for heading, numbers in others.items():
        yield heading, interval(numbers[widest], unit) if numbers else None
    for heading, (number, of_number) in FURTHER_SIZES[unit].items():
        yield heading, interval(last.cumulative[number], of_number)
    if last.frequency is not None:
        yield "effective mel bins", interval(last.frequency["effective_bins"], "bins")
        low, high = (last.frequency[end].value for end in ("low_hz", "high_hz"))
        yield "band with 90 % of the energy", f"{low:,.0f}–{high:,.0f} Hz"
    if result.heads is not None and not isnan(entropy := float(result.heads.entropy.nanmean())):
        yield "mean attention entropy", f"{entropy:.2f}"
    yield "parameters", f"{result.parameters / 1e6:.2f} M"
    yield "last layer", last.name


def window_cells(result: Result) -> Iterator[tuple[str, str]]:
    """The radius of the window that keeps 90 % of the accuracy, or of the agreement, for each replacement."""
    if result.visible is not None:
        what = "agreement with its own predictions" if result.visible.agreement else "of the accuracy"
        for name, estimate in result.keeps.items():
            yield f"window radius for 90 % {what}, {name} outside", interval(estimate, result.subject.unit)


def widths(results: Sequence[Result]) -> str:
    """How wide the interval of each model's main number is, relative to the number."""
    texts = []
    for result in results:
        value, low, high = result.main.layers[-1].cumulative[WIDEST[result.subject.unit]]
        texts.append(f"{result.subject.name} ±{50 * (high - low) / value:.1f} %")
    return f"95 % intervals of the size with 90 % of the energy: {', '.join(texts)}"


def last_of(state: State | None) -> dict[str, Estimate] | None:
    """The numbers of the last layer of a state, if it was measured."""
    return state and state.layers[-1].cumulative


def theoretical(result: Result) -> str:
    """The theoretical receptive field of the last layer."""
    last, unit = result.main.layers[-1], result.subject.unit
    if last.theoretical is None:
        return "unknown"
    if not result.subject.takes_audio:
        side = sum(last.theoretical) + 1
        return f"side {side:.0f} px" if isfinite(side) else "unlimited"
    past, ahead = (f"{length:,.0f} {unit}" if isfinite(length) else "unlimited" for length in last.theoretical)
    return f"past {past}, look-ahead {ahead}"


def interval(estimate: Estimate, unit: str) -> str:
    """A number with its interval and its unit."""
    value, low, high = (rounded(number, unit) for number in estimate)
    return f"{value} ({low}–{high}) {unit}".strip()


def rounded(number: float, unit: str) -> str:
    """A number with the digits that are shown of its unit."""
    return f"{number:,.{DIGITS.get(unit, 0)}f}"
