"""The comparison as a table of its main results, and as sentences about each model."""

from collections.abc import Callable, Sequence
from math import isfinite, isnan

from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.differences import MIXED, MODELS, SIZE, TRAINING, Difference, Pair, pairs
from vitspeech.receptive.figures.visible import OUTSIDE
from vitspeech.receptive.report.table import length_unit
from vitspeech.receptive.statistics import Estimate

KEPT_OF = {"accuracy": "of the accuracy", "agreement": "agreement with its own predictions"}

Row = list[str]


def table(results: Sequence[Result]) -> tuple[Row, list[Row]]:
    """The column headings and one row per model; numbers of the last measured layer with 95 % intervals."""
    cells = [speech_row(result) if result.subject.takes_audio else image_row(result) for result in results]
    headings = list(dict.fromkeys(heading for row in cells for heading in row))
    return ["model", *headings], [
        [result.subject.name, *(row.get(heading, "–") for heading in headings)]
        for result, row in zip(results, cells, strict=True)
    ]


def image_row(result: Result) -> dict[str, str]:
    """The cells of an image model, by heading."""
    last = result.main.layers[-1]
    row = {
        "state": "trained" if result.main.trained else "untrained",
        "parameters": parameters(result),
        "theoretical field (side)": theoretical_cell(result),
        "50 % of the energy (side)": length(last.cumulative["side_50"], "px"),
        "50 % of a uniform field": f"{last.uniform['cumulative']['side_50']:.1f} px",
        "90 % of the energy (side)": length(last.cumulative["side_90"], "px"),
        "90 % of a uniform field": f"{last.uniform['cumulative']['side_90']:.1f} px",
        "90 % without residual paths": length_or_dash(last.cumulative_cut and last.cumulative_cut["side_90"], "px"),
        "effective area": length(last.cumulative["effective_pixels"], "px²", digits=0),
    }
    return row | other_states(result, "side_90") | attention(result) | accuracy(result)


def speech_row(result: Result) -> dict[str, str]:
    """The cells of a speech model, by heading."""
    last = result.main.layers[-1]
    cut = last.cumulative_cut and last.cumulative_cut["span_90"]
    uniform = {name: f"{value:.0f} ms" for name, value in last.uniform["cumulative"].items()}
    row = {
        "state": "trained" if result.main.trained else "untrained",
        "parameters": parameters(result),
        "theoretical field": theoretical_cell(result),
        "90 % of the past's energy": length(last.cumulative["back_90"], "ms", digits=0),
        "of a uniform field's past": uniform["back_90"],
        "90 % of the look-ahead's energy": length(last.cumulative["ahead_90"], "ms", digits=0),
        "of a uniform field's look-ahead": uniform["ahead_90"],
        "look-ahead, fraction of the energy": f"{100 * last.cumulative['ahead_share'].value:.0f} %",
        "90 % of the energy (span)": length(last.cumulative["span_90"], "ms", digits=0),
        "of a uniform field (span)": uniform["span_90"],
        "90 % without residual paths": length_or_dash(cut, "ms", digits=0),
    }
    row["effective mel bins"] = length(last.frequency["effective_bins"], "", digits=0)
    row["band with 90 % of the energy"] = (
        f"{last.frequency['low_hz'].value:,.0f}–{last.frequency['high_hz'].value:,.0f} Hz"
    )
    return row | other_states(result, "span_90") | attention(result) | accuracy(result)


def other_states(result: Result, number: str) -> dict[str, str]:
    """The cells for the model before training, as initialized, and at the second input size."""
    unit, digits = length_unit(result), 0 if result.subject.takes_audio else 1
    row = {}
    if result.untrained and result.subject.trained:
        estimate = result.untrained.layers[-1].cumulative[number]
        row["90 % before training"] = length(estimate, unit, digits=digits)
    state = zero_init_state(result)
    if state is not None and state.as_initialized is not None:
        estimate = state.as_initialized.cumulative[number]
        row["90 % as initialized (residual branches off)"] = length(estimate, unit, digits=digits)
    if result.larger:
        estimate = result.larger.layers[-1].cumulative[number]
        row[f"90 % at {size_of(result, result.larger)}"] = length(estimate, unit, digits=digits)
    return row


def attention(result: Result) -> dict[str, str]:
    """The cells for attention: means over all heads."""
    if result.heads is None:
        return {}
    heads, unit = result.heads, length_unit(result)
    # The distance of a head without weights, and both ratios of one that sees its own token only, are undefined.
    distance, relative, entropy = (
        float(measure.nanmean()) for measure in (heads.distance, heads.relative_distance, heads.entropy)
    )
    compared = "" if isnan(relative) else f" ({relative:.2f} × uniform)"
    return {
        "mean attention distance": f"{distance:.3g} {unit}{compared}",
        **({} if isnan(entropy) else {"mean attention entropy": f"{entropy:.2f}"}),
    }


def accuracy(result: Result) -> dict[str, str]:
    """The cells for accuracy and for the visible window that keeps 90 % of it; without labels, of the agreement."""
    if result.visible is None:
        return {}
    kept = {f"window radius for 90 % {KEPT_OF[result.visible.quantity]} ({length_unit(result)})": kept_radii(result)}
    if result.visible.agreement:
        return kept
    low, high = result.visible.whole_interval
    whole = f"{100 * result.visible.whole:.1f} % ({100 * low:.1f}–{100 * high:.1f})"
    return {"accuracy on these inputs": whole} | kept


def kept_radii(result: Result, unit: str = "", outside: str = "") -> str:
    """The window radius that keeps 90 % of the accuracy or agreement, for each replacement of the rest."""
    cell, digits = result.main.layers[0].cell, 0 if result.subject.takes_audio else 1
    radii = {
        OUTSIDE.get(name, name): length(Estimate(*(cell * end for end in radius)), unit, digits=digits)
        for name, radius in result.visible.keeps().items()
    }
    return ", ".join(f"{radius} with the {name}{outside}" for name, radius in radii.items())


def sentences(result: Result) -> list[str]:
    """The main results of one model in sentences; what was not measured is left out."""
    speech, last = result.subject.takes_audio, result.main.layers[-1]
    prefix, shape = ("span", "span") if speech else ("side", "square")
    number = f"{prefix}_90"

    def of(estimate: Estimate) -> str:
        return length(estimate, length_unit(result), digits=0 if speech else 1)

    half, most = (of(last.cumulative[f"{prefix}_{part}"]) for part in (50, 90))
    flat = [f"{last.uniform['cumulative'][f'{prefix}_{part}']:,.{0 if speech else 1}f}" for part in (50, 90)]
    where = "centered spans of" if speech else "centered squares with sides of"
    state = "" if result.main.trained else "The network is untrained. "
    texts = [
        f"{state}The theoretical receptive field of a unit in the last layer ({last.name}) {theoretical(result)}. "
        f"50 % and 90 % of the gradient energy lie within {where} {half} and {most}; a uniform field would give "
        f"{flat[0]} and {flat[1]} {length_unit(result)}."
    ]
    compared = {pair.kind: pair for pair in pairs([result])}
    if TRAINING in compared and result.subject.trained:
        before = result.untrained.layers[-1].cumulative
        first, second = (of(before[f"{prefix}_{part}"]) for part in (50, 90))
        changes = changes_in_words(compared[TRAINING], prefix, shape)
        texts.append(f"Before training, these {prefix}s were {first} and {second}. With training, {changes}.")
    texts += zero_init_sentences(result, number, of)
    if SIZE in compared:
        texts.append(larger_sentence(result, compared[SIZE], number, shape))
    if last.cumulative_cut is not None:
        texts.append(
            f"Without residual paths, 90 % of the energy would lie within a {shape} of "
            f"{of(last.cumulative_cut[number])}."
        )
    if result.visible is not None:
        window = "around the middle of the word, of half length" if speech else "around the center, of half side"
        kept = f"The accuracy on complete inputs is {100 * result.visible.whole:.1f} %. 90 % of it is kept"
        if result.visible.agreement:
            kept = "Its labels do not match the data. 90 % of its predictions for complete inputs stay the same"
        radii = kept_radii(result, length_unit(result), " outside")
        texts.append(f"{kept} if the model is given only a window {window} {radii}.")
    return texts


def zero_init_state(result: Result) -> State | None:
    """The first state at the main size whose residual branches were switched on, `None` if there is none."""
    states = (result.main, result.untrained)
    return next((state for state in states if state is not None and state.zero_init), None)


def zero_init_sentences(result: Result, number: str, of: Callable[[Estimate], str]) -> list[str]:
    """The note about residual branches that are zero at initialization, with the field as initialized."""
    state = zero_init_state(result)
    if state is None:
        return []
    note = f"Before training, {state.zero_init}."
    if state.as_initialized is not None:
        note += f" As initialized, 90 % of the energy lies within {of(state.as_initialized.cumulative[number])}."
    return [note]


def larger_sentence(result: Result, pair: Pair, number: str, shape: str) -> str:
    """How the 90 % square or span changes on larger inputs, beside that of a uniform field."""
    larger, main = (state.layers[-1] for state in (result.larger, result.main))
    scale, ratio = (
        result.larger.size / result.main.size,
        larger.cumulative[number].value / main.cumulative[number].value,
    )
    flat = larger.uniform["cumulative"][number] / main.uniform["cumulative"][number]
    within = next(found for found in pair.differences if found.number == number)
    low, high = (f"{end:,.3g}".replace("-", "−") for end in pair.window)
    unit, digits = length_unit(result), 0 if result.subject.takes_audio else 1
    sentence = (
        f"On inputs {scale:g} times as large ({size_of(result, result.larger)}), the 90 % {shape} is "
        f"{length(larger.cumulative[number], unit, digits=digits)}, {ratio:.2f} times as large; that of a uniform "
        f"field is {flat:.2f} times as large."
    )
    if within.ratio is None:
        return sentence
    fixed, least, most = (f"{value:.2f}" for value in within.ratio)
    return f"{sentence} Within the same offsets ({low} to {high} {unit}), the factor is {fixed} ({least}–{most})."


def changes_in_words(pair: Pair, prefix: str, shape: str) -> str:
    """The changes of the 50 % and the 90 % square or span as a clause, by the intervals of the paired differences."""
    found = {d.number: d for d in pair.differences}
    parts = [
        change(found[f"{prefix}_{part}"], f"the {part} % {shape}", length_unit(pair.first[0])) for part in (50, 90)
    ]
    return " and ".join(parts)


def change(found: Difference, what: str, unit: str) -> str:
    """Whether a number increased or decreased, by the interval of the paired difference."""
    by = signed(found.change, unit)
    return {1: f"{what} widened ({by})", -1: f"{what} narrowed ({by})", 0: f"no difference was found in {what} ({by})"}[
        found.verdict
    ]


def model_differences(compared: Sequence[Pair]) -> tuple[Row, list[Row]]:
    """The column headings, and a row for each number of every two models: both, and the paired difference."""
    headings = ["models", "number", "first", "second", "first − second", "result"]
    rows = []
    for pair in compared:
        if pair.kind != MODELS:
            continue
        unit, digits = length_unit(pair.first[0]), 0 if pair.first[0].subject.takes_audio else 1
        names = " and ".join(result.subject.name for result, _ in (pair.first, pair.second))
        low, high = (f"{end:,.3g}".replace("-", "−") for end in pair.window)
        for d in pair.differences:
            name = f"{d.number}, {low} to {high} {unit}"
            if d.number.startswith("keeps_90_"):
                agreement = " for 90 % agreement" if pair.first[0].visible.agreement else ""
                name = f"window{agreement}, {d.number[9:]}"
            result = {1: "first larger", -1: "first smaller", 0: "no difference found"}[d.verdict]
            both = [length(number, unit, digits=digits) for number in (d.first, d.second)]
            rows.append([names, name, *both, signed(d.change, unit, digits=digits), result])
        if pair.mixes_agreement:
            rows.append([names, "window", "–", "–", "–", f"not compared: {MIXED}"])
    return headings, rows


def signed(estimate: Estimate, unit: str, *, digits: int | None = None) -> str:
    """A difference with its interval and its unit."""
    digits = (0 if unit == "ms" else 1) if digits is None else digits
    value, low, high = (f"{round(number, digits) + 0:+,.{digits}f}".replace("-", "−") for number in estimate)
    return f"{value} {unit}, {low} to {high}"


def theoretical(result: Result) -> str:
    """The theoretical receptive field of the last layer, as the end of a sentence."""
    last, unit = result.main.layers[-1], length_unit(result)
    if last.reach is None:
        return "is unknown, because the autograd graph does not determine it"
    before, after = last.reach
    if not isfinite(before) and not isfinite(after):
        return "is unlimited"
    if not result.subject.takes_audio:
        return "is unlimited" if not isfinite(before + after) else f"has a side of {before + after + 1:.0f} px"
    past, ahead = (f"{reach:.0f} {unit}" if isfinite(reach) else "without limit" for reach in (before, after))
    return f"reaches {past} into the past and {ahead} ahead"


def theoretical_cell(result: Result) -> str:
    """The theoretical receptive field of the last layer, as a cell of the table."""
    last, unit = result.main.layers[-1], length_unit(result)
    if last.reach is None:
        return "unknown"
    before, after = last.reach
    if not result.subject.takes_audio:
        return f"{before + after + 1:.0f} px" if isfinite(before + after) else "unlimited"
    past, ahead = (f"{reach:,.0f} {unit}" if isfinite(reach) else "unlimited" for reach in (before, after))
    return f"past {past}, look-ahead {ahead}"


def length(estimate: Estimate, unit: str, *, digits: int = 1) -> str:
    """A number with its interval and its unit."""
    value, low, high = (f"{number:,.{digits}f}" for number in estimate)
    return f"{value} ({low}–{high}) {unit}".strip()


def length_or_dash(estimate: Estimate | None, unit: str, *, digits: int = 1) -> str:
    """A number with its interval and its unit, or a dash if there is none."""
    return "–" if estimate is None else length(estimate, unit, digits=digits)


def parameters(result: Result) -> str:
    """The number of parameters in millions."""
    return f"{result.parameters / 1e6:.2f} M"


def size_of(result: Result, state: State) -> str:
    """The input size of a state with its unit."""
    return f"{state.size:g} s" if result.subject.takes_audio else f"{state.size:g} px"
