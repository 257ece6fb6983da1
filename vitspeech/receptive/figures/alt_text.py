"""Alternative texts of figures: what a figure shows, with the numbers of every model.

The texts are generated from the results, so they stay true when the models change.
"""

from collections.abc import Callable, Sequence

from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.figures.visible import KEPT, OUTSIDE, quantity

Value = Callable[[Result], float | None]


def ranked(results: Sequence[Result], value: Value, unit: str, *, digits: int = 1) -> str:
    """The models from the largest to the smallest value, then those without one; untrained models are marked."""
    values = [
        (f"{result.subject.name}{'' if result.subject.trained else ' (untrained)'}", value(result))
        for result in results
    ]
    present = sorted(((name, number) for name, number in values if number is not None), key=lambda pair: -pair[1])
    parts = [f"{name} {number:,.{digits}f} {unit}".strip() for name, number in present]
    return ", ".join([*parts, *(f"{name} not measured" for name, number in values if number is None)])


def last(number: str, *, of: str = "main", field: str = "cumulative") -> Value:
    """The value of a number in the last layer of one of a result's states, `None` if there is none."""

    def value(result: Result) -> float | None:
        state: State | None = getattr(result, of)
        numbers = getattr(state.layers[-1], field) if state is not None else None
        return numbers[number].value if numbers and number in numbers else None

    return value


def trained_and_not(results: Sequence[Result], number: str, unit: str, *, digits: int) -> str:
    """A number of the last layer of the main state, and of the models before training where both are measured."""
    text = ranked(results, last(number), unit, digits=digits)
    both = [result for result in results if result.subject.trained and result.untrained is not None]
    if not both:
        return text
    return f"{text}; before training: {ranked(both, last(number, of='untrained'), unit, digits=digits)}"


def fields_alt(results: Sequence[Result], *, number: str, unit: str, digits: int) -> str:
    """For the heat maps of effective receptive fields."""
    shape = "squares" if unit == "px" else "spans"
    return (
        f"Heat maps of effective receptive fields, one row per model, growing from the first layer (left) to the last "
        f"(right). Centered {shape} with 90 % of the energy in the last layer, largest first: "
        f"{ranked(results, last(number), unit, digits=digits)}."
    )


def energy_alt(results: Sequence[Result]) -> str:
    """For the energy of images within a radius."""
    return (
        "Curves of the fraction of energy within a radius, last layer. Radius with 90 % of the energy, largest first: "
        f"{trained_and_not(results, 'radius_90', 'px', digits=1)}."
    )


def energy_over_time_alt(results: Sequence[Result]) -> str:
    """For the energy of speech over time."""
    return (
        "Curves of energy over time, last layer, one panel per model, with a peak near 0 ms. Fraction of the energy "
        f"that is look-ahead, largest first: {ranked(results, percent(last('ahead_share')), '%', digits=0)}. "
        f"Span with 90 % of the energy: {trained_and_not(results, 'span_90', 'ms', digits=0)}."
    )


def depth_alt(results: Sequence[Result]) -> str:
    """For the sides of squares against depth."""
    return (
        "Lines of the side of the centered square with 50 % and 90 % of the energy, by depth. Last layer, 90 %, "
        f"largest first: {trained_and_not(results, 'side_90', 'px', digits=1)}. 50 %: "
        f"{trained_and_not(results, 'side_50', 'px', digits=1)}.{larger_alt(results, 'side_90', 'px', digits=1)}"
    )


def reach_alt(results: Sequence[Result]) -> str:
    """For past and look-ahead against depth."""
    return (
        "Lines of the time that holds 90 % of the energy of the past and of the look-ahead, by depth. Last layer, "
        f"past, largest first: {ranked(results, last('back_90'), 'ms', digits=0)}; look-ahead: "
        f"{ranked(results, last('ahead_90'), 'ms', digits=0)}."
    )


def larger_alt(results: Sequence[Result], number: str, unit: str, *, digits: int) -> str:
    """The same number at the second input size; empty if no model has one."""
    second = [result for result in results if result.larger is not None]
    if not second:
        return ""
    ratio = second[0].larger.size / second[0].main.size
    values = ranked(second, last(number, of="larger"), unit, digits=digits)
    return f" On inputs {ratio:g} times as large, 90 %: {values}."


def blocks_alt(results: Sequence[Result], unit: str) -> str:
    """For the receptive fields of single blocks."""
    return (
        "Lines of the width of each block's own field, by depth. Last block, largest first: "
        f"{ranked(results, last('width', field='block'), unit)}; without residual paths: "
        f"{ranked(results, last('width', field='block_cut'), unit)}."
    )


def states_alt(results: Sequence[Result], *, number: str, unit: str, digits: int) -> str:
    """For the last layer in all states."""
    quantity = "Radius with 90 % of the energy" if unit == "px" else "Past with 90 % of its energy"
    return (
        f"Points for every state of every model. {quantity}, last layer, largest first: "
        f"{trained_and_not(results, number, unit, digits=digits)}.{larger_alt(results, number, unit, digits=digits)}"
    )


def heads_alt(results: Sequence[Result], unit: str) -> str:
    """For the attention heads."""
    relative = ranked(results, mean_of_heads("relative_distance"), "", digits=2)
    return (
        "Points for attention heads. Mean attention distance, largest first: "
        f"{ranked(results, mean_of_heads('distance'), unit)}; relative to uniform attention: {relative}."
    )


def mean_of_heads(measure: str) -> Value:
    """The mean of a measure over all heads, `None` without attention."""
    return lambda result: None if result.heads is None else float(getattr(result.heads, measure).nanmean())


def percent(value: Value) -> Value:
    """A fraction in percent."""

    def scaled(result: Result) -> float | None:
        fraction = value(result)
        return None if fraction is None else 100 * fraction

    return scaled


def visible_alt(results: Sequence[Result], unit: str) -> str:
    """For the accuracy when only a window is visible; models with agreement are ranked apart."""
    measured = [result for result in results if result.visible is not None]
    name = next(iter(measured[0].visible.accuracy))
    agreement = [result for result in measured if result.visible.agreement]
    others = [result for result in results if result.visible is None or not result.visible.agreement]

    def full(result: Result) -> float | None:
        return None if result.visible is None else 100 * result.visible.whole

    def radius(result: Result) -> float | None:
        radii = {} if result.visible is None else result.visible.keeps(KEPT)
        return radii[name].value * result.main.layers[0].cell if name in radii else None

    window, outside = f"Window radius for {100 * KEPT:.0f} %", f"with the {OUTSIDE.get(name, name)} outside"
    text = f"Curves of {quantity(results)} rising with the size of the visible window."
    if others:
        text += (
            f" Full accuracy, highest first: {ranked(others, full, '%')}. {window} of it {outside}, largest first: "
            f"{ranked(others, radius, unit)}."
        )
    if agreement:
        text += (
            f" {window} agreement with the model's own predictions for complete inputs, {outside}, largest first: "
            f"{ranked(agreement, radius, unit)}."
        )
    return text


def frequency_alt(results: Sequence[Result]) -> str:
    """For the frequencies."""
    bands = [
        f"{result.subject.name} {low.value:,.0f}–{high.value:,.0f} Hz"
        for result in results
        if (numbers := result.main.layers[-1].frequency)
        for low, high in [(numbers["low_hz"], numbers["high_hz"])]
    ]
    bins = ranked(results, last("effective_bins", field="frequency"), "", digits=0)
    return (
        "Lines of the frequency band with 90 % of the energy and of the effective number of mel bins, by depth. Last "
        f"layer: {', '.join(bands) or 'not measured'}. Effective mel bins, largest first: {bins}."
    )
