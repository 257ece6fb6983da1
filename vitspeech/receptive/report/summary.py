"""The comparison in a table that can be read by itself, and in sentences.

Shapes: L layers, H heads.
"""

from collections.abc import Sequence
from math import isfinite

from vitspeech.receptive.comparison import Result, State
from vitspeech.receptive.fields.extent import Estimate
from vitspeech.receptive.report.table import length_unit

Row = list[str]


def table(results: Sequence[Result]) -> tuple[Row, list[Row]]:
    """A line a model, and the columns' titles; numbers of the last layer measured, with 95 % intervals."""
    lines = [speech_line(result) if result.subject.hears else picture_line(result) for result in results]
    titles = list(dict.fromkeys(title for line in lines for title in line))
    return ["model", *titles], [
        [result.subject.name, *(line.get(title, "–") for title in titles)]
        for result, line in zip(results, lines, strict=True)
    ]


def picture_line(result: Result) -> dict[str, str]:
    """What a model of pictures gets in the table."""
    last = result.main.layers[-1]
    line = {
        "parameters": parameters(result),
        "could see": could_see(result),
        "50 % of the energy (side)": length(last.cumulative["side_50"], "px"),
        "90 % of the energy (side)": length(last.cumulative["side_90"], "px"),
        "90 % without skips": missing_or(last.cumulative_cut and last.cumulative_cut["side_90"], "px"),
        "even field of": length(last.cumulative["effective_pixels"], "px²", digits=0),
    }
    return line | other_states(result, "side_90") | attention(result) | answers(result)


def speech_line(result: Result) -> dict[str, str]:
    """What a model of speech gets in the table."""
    last = result.main.layers[-1]
    line = {
        "parameters": parameters(result),
        "could hear": could_see(result),
        "90 % of the past within": length(last.cumulative["back_90"], "ms", digits=0),
        "90 % of what follows within": length(last.cumulative["ahead_90"], "ms", digits=0),
        "energy of what follows": f"{100 * last.cumulative['ahead_share'].value:.0f} %",
        "90 % of the energy (span)": length(last.cumulative["span_90"], "ms", digits=0),
        "90 % without skips": missing_or(last.cumulative_cut and last.cumulative_cut["span_90"], "ms", digits=0),
    }
    line["mel bins, effectively"] = length(last.frequency["effective_bins"], "", digits=0)
    line["band of 90 %"] = f"{last.frequency['low_hz'].value:,.0f}–{last.frequency['high_hz'].value:,.0f} Hz"
    return line | other_states(result, "span_90") | attention(result) | answers(result)


def other_states(result: Result, number: str) -> dict[str, str]:
    """The same before training and at the second size."""
    unit, digits = length_unit(result), 0 if result.subject.hears else 1
    line = {}
    if result.untrained and result.subject.trained:
        estimate = result.untrained.layers[-1].cumulative[number]
        line["90 % before training"] = length(estimate, unit, digits=digits)
    if result.larger:
        estimate = result.larger.layers[-1].cumulative[number]
        line[f"90 % at {size_of(result, result.larger)}"] = length(estimate, unit, digits=digits)
    return line


def attention(result: Result) -> dict[str, str]:
    """The mean over heads of attention's own measures."""
    if result.heads is None:
        return {}
    heads, unit = result.heads, length_unit(result)
    distance, relative = float(heads.distance.mean()), float(heads.relative_distance.mean())
    return {
        "attention looks": f"{distance:.3g} {unit} far, {relative:.2f} of uniform",
        "entropy of heads": f"{float(heads.entropy.mean()):.2f}",
    }


def answers(result: Result) -> dict[str, str]:
    """Accuracy, and how much must be visible for 90 % of it."""
    if result.visible is None:
        return {}
    unit, cell = length_unit(result), result.main.layers[0].cell
    low, high = result.visible.whole_interval
    kept = ", ".join(f"{radius * cell:.3g} ({name})" for name, radius in result.visible.keeps().items())
    return {
        "accuracy on these": f"{100 * result.visible.whole:.1f} % ({100 * low:.1f}–{100 * high:.1f})",
        f"radius for 90 % of it ({unit})": kept,
    }


def sentences(result: Result) -> list[str]:
    """What the numbers of one model say; what they do not say is left out."""
    unit, last = length_unit(result), result.main.layers[-1]
    number = "span" if result.subject.hears else "side"
    named = "stretch" if result.subject.hears else "square"
    digits, could = (0, "could hear") if result.subject.hears else (1, "could see")
    half, most = (length(last.cumulative[f"{number}_{share}"], unit, digits=digits) for share in (50, 90))
    found = [
        f"A unit of the last layer ({last.name}) {could} {could_see(result)}; half of what changes it lies in a "
        f"{named} of {half}, 90 % in one of {most}."
    ]
    before = result.untrained.layers[-1].cumulative if result.untrained and result.subject.trained else None
    if before is not None:
        verbs = [change(before[f"{number}_{share}"], last.cumulative[f"{number}_{share}"]) for share in (50, 90)]
        was = [length(before[f"{number}_{share}"], unit, digits=digits) for share in (50, 90)]
        said_of = f"with training the half {verbs[0]}, and the 90 % {verbs[1]}"
        found.append(f"Before training it was {was[0]} and {was[1]}: {said_of}.")
    if result.larger is not None:
        there = result.larger.layers[-1].cumulative
        ratio = there[f"{number}_90"].value / last.cumulative[f"{number}_90"].value
        grown = result.larger.size / result.main.size
        found.append(
            f"Inputs {grown:g} times as large ({size_of(result, result.larger)}) make the 90 % {ratio:.2f} times as "
            f"large: {length(there[f'{number}_90'], unit, digits=digits)}."
        )
    if last.cumulative_cut is not None:
        cut = length(last.cumulative_cut[f"{number}_90"], unit, digits=digits)
        found.append(f"Without the paths that skip layers, 90 % would lie in a {named} of {cut}.")
    if result.visible is not None:
        cell, kept = last.cell, result.visible.keeps()
        shown = ", ".join(f"{radius * cell:.3g} {unit} ({name})" for name, radius in kept.items())
        found.append(
            f"It keeps 90 % of its accuracy of {100 * result.visible.whole:.1f} % when what is farther than this from "
            f"the middle is replaced: {shown}."
        )
    return found


def change(before: Estimate, after: Estimate) -> str:
    """Whether a number rose or fell; if the intervals overlap, neither is said."""
    if after.low > before.high:
        return "widened"
    return "narrowed" if after.high < before.low else "stayed, within the intervals"


def could_see(result: Result) -> str:
    """The theoretical field of the last layer in words."""
    last, unit = result.main.layers[-1], length_unit(result)
    if last.reach is None:
        return "more than its graph tells"
    before, after = last.reach
    if result.subject.hears:
        return f"{said(before, unit)} back and {said(after, unit)} ahead"
    return "everything" if not isfinite(before + after) else f"{before + after + 1:.0f} px"


def said(reach: float, unit: str) -> str:
    """A length that may be without a limit."""
    return f"{reach:.0f} {unit}" if isfinite(reach) else "everything"


def length(estimate: Estimate, unit: str, *, digits: int = 1) -> str:
    """A number with its interval and its unit."""
    value, low, high = (f"{number:,.{digits}f}" for number in estimate)
    return f"{value} ({low}–{high}) {unit}".strip()


def missing_or(estimate: Estimate | None, unit: str, *, digits: int = 1) -> str:
    """The same; a dash where there are no skipping paths, or nothing is left without them."""
    return "–" if estimate is None else length(estimate, unit, digits=digits)


def parameters(result: Result) -> str:
    """How many numbers a model has."""
    return f"{result.parameters / 1e6:.2f} M"


def size_of(result: Result, state: State) -> str:
    """A state's size of input with its unit."""
    return f"{state.size:g} s" if result.subject.hears else f"{state.size:g} px"
