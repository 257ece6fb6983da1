"""The main results as a table with a column for each model, and the paired differences as another.

A number is followed by its 95 % interval in brackets; fields are those of the last measured layer.
"""

from collections.abc import Iterator, Sequence
from math import isfinite, isnan
from typing import NamedTuple

from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.differences import MIXED, MODELS, TRAINING, Pair
from vitspeech.receptive.report.numbers import unit_of
from vitspeech.receptive.statistics import Estimate

SHOWN = {  # numbers of the last layer, beside those of a uniform field
    "px": {
        "50 % of the energy (side)": "side_50",
        "90 % of the energy (side)": "side_90",
        "effective area": "effective_pixels",
    },
    "ms": {
        "90 % of the past's energy": "back_90",
        "90 % of the look-ahead's energy": "ahead_90",
        "look-ahead, fraction of the energy": "ahead_share",
        "50 % of the energy (span)": "span_50",
        "90 % of the energy (span)": "span_90",
    },
}
WIDEST = {"px": "side_90", "ms": "span_90"}
DIGITS = {"px": 1, "1": 2}
OF_AGREEMENT = "agreement with its own predictions"


class Table(NamedTuple):
    """A table with its column headings; the first cell of a row is its heading."""

    columns: list[str]
    rows: list[list[str]]

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def main_results(results: Sequence[Result]) -> Table:
    """One column per model, one row per number; a dash where it was not measured."""
    cells = [dict(model_cells(result)) for result in results]
    headings = dict.fromkeys(heading for column in cells for heading in column)
    rows = [[heading, *(column.get(heading) or "–" for column in cells)] for heading in headings]
    rows = [row for row in rows if any(cell != "–" for cell in row[1:])]
    return Table(["", *(result.subject.name for result in results)], rows)


def model_cells(result: Result) -> Iterator[tuple[str, str | None]]:
    """The headings and cells of one model; `None` for a state or a field that was not measured."""
    unit, last = result.subject.unit, result.main.layers[-1]
    yield "state", "trained" if result.main.trained else "untrained"
    yield "parameters", f"{result.parameters / 1e6:.2f} M"
    yield "last layer", last.name
    yield "theoretical field", theoretical(result)
    for heading, number in SHOWN[unit].items():
        uniform = rounded(last.uniform["cumulative"][number], unit_of(number, unit))
        yield heading, f"{interval(last.cumulative[number], unit_of(number, unit))}; uniform field {uniform}"
    if last.frequency is not None:
        yield "effective mel bins", interval(last.frequency["effective_bins"], "")
        low, high = (last.frequency[end].value for end in ("low_hz", "high_hz"))
        yield "band with 90 % of the energy", f"{low:,.0f}–{high:,.0f} Hz"
    switched_on = next((state for state in (result.main, result.untrained) if state and state.zero_init), None)
    others = {
        "90 % without residual paths": last.cumulative_cut,
        "90 % before training": last_of(result.untrained) if result.subject.trained else None,
        "90 % as initialized (residual branches off)": switched_on and switched_on.as_initialized.cumulative,
        f"90 % at {result.larger and result.subject.size_text(result.larger.size)}": last_of(result.larger),
    }
    for heading, numbers in others.items():
        yield heading, interval(numbers[WIDEST[unit]], unit) if numbers else None
    if result.heads is not None:
        # The distance of a head without weights, and both ratios of one that sees its own token only, are undefined.
        distance, relative, entropy = (
            float(getattr(result.heads, name).nanmean()) for name in ("distance", "relative_distance", "entropy")
        )
        yield (
            "mean attention distance",
            f"{distance:.3g} {unit}" + ("" if isnan(relative) else f" ({relative:.2f} × uniform)"),
        )
        if not isnan(entropy):
            yield "mean attention entropy", f"{entropy:.2f}"
    if result.visible is not None:
        if not result.visible.agreement:
            low, high = (100 * end for end in result.visible.whole_interval)
            yield "accuracy on these inputs", f"{100 * result.visible.whole:.1f} ({low:.1f}–{high:.1f}) %"
        what = OF_AGREEMENT if result.visible.agreement else "of the accuracy"
        for name, estimate in result.keeps.items():
            yield f"window radius for 90 % {what}, {name} outside", interval(estimate, unit)


def differences(compared: Sequence[Pair]) -> Table:
    """A row for each number of two measurements: both values, and the paired difference."""
    rows = []
    for pair in compared:
        unit, places = pair.first[0].subject.unit, [place(pair, *one) for one in (pair.first, pair.second)]
        low, high = (f"{end:,.3g}".replace("-", "−") for end in pair.window)
        for d in pair.differences:
            name = f"{d.number}, {low} to {high} {unit}"
            if d.number.startswith("keeps_90_"):
                agreement = " for 90 % agreement" if pair.first[0].visible.agreement else ""
                name = f"window{agreement}, {d.number.removeprefix('keeps_90_')}"
            verdict = {1: "larger", -1: "smaller", 0: "no difference found"}[d.verdict]
            values = [interval(number, unit) for number in (d.first, d.second)]
            rows.append([*places, name, *values, signed(d.change, unit), verdict])
        if pair.mixes_agreement:
            rows.append([*places, "window", "–", "–", "–", f"not compared: {MIXED}"])
    return Table(["first", "second", "number", "first", "second", "first − second", "first is"], rows)


def place(pair: Pair, result: Result, state: State) -> str:
    """One side of a pair: the model, and what distinguishes its two states."""
    if pair.kind == MODELS:
        return result.subject.name
    size = result.subject.size_text(state.size)
    return f"{result.subject.name}, {('trained' if state.trained else 'untrained') if pair.kind == TRAINING else size}"


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
    return f"{value} ({low}–{high}) {'' if unit == '1' else unit}".strip()


def signed(estimate: Estimate, unit: str) -> str:
    """A difference with its interval and its unit."""
    digits = DIGITS.get(unit, 0)
    value, low, high = (f"{round(number, digits) + 0:+,.{digits}f}".replace("-", "−") for number in estimate)
    return f"{value} ({low} to {high}) {unit}"


def rounded(number: float, unit: str) -> str:
    """A number with the digits that are shown of its unit."""
    return f"{number:,.{DIGITS.get(unit, 0)}f}"
