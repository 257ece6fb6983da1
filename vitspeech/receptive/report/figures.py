"""Every figure of the report: how it is drawn, its caption, and its alternative text.

`FIGURES` is the only table of captions. Where images ("px") and speech ("ms") differ, an entry has a value for each;
other captions take the words of `WORDS`. Alternative texts rank the models by a few numbers of each figure, so they
stay true when the models change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan

from matplotlib.figure import Figure

from vitspeech.receptive.compare import Result
from vitspeech.receptive.report import curves, maps
from vitspeech.receptive.sample import Sample

Draw = Callable[[Sequence[Result]], Figure]
Numbers = dict[str, str]  # what a number is: where `number_of` finds it

WORDS = {
    "px": {
        "unit": "px",
        "input": "image",
        "size": "image size",
        "seen": "a centered square window of the image is visible",
        "half": "half its side",
    },
    "ms": {
        "unit": "ms",
        "input": "clip",
        "size": "clip length",
        "seen": "a window around the middle of the word is audible",
        "half": "half its length",
    },
}
PANELS = (
    "Columns are layers, by relative depth. Panels have different extents: each is zoomed to its field, and its ticks "
    "give the scale in {unit}. All panels share one logarithmic color scale; gray means no energy, or not measured. "
)
OVER_DEPTH = (
    "Against the relative depth of the layer, on a logarithmic axis, with 95 % intervals over inputs. Thin lines "
    "without markers: theoretical receptive fields; ∞ means unlimited. Dash-dotted: a uniform field."
)
ROWS = (
    "with 95 % intervals over inputs: left in {unit}, right as a fraction of the {input}. The gray row is the state "
    "shown in the other figures. If the order of two models differs between rows, the conclusion depends on training "
    "or on the {size}."
)
HEADS = (
    "Each point is one head: mean attention distance in {unit}, also relative to uniform attention (1); entropy "
    "relative to its maximum; and how well one kernel, the same at every position, reproduces the head's weights (1: "
    "exactly a convolution). Brighter points are deeper; depth is relative among the attention layers. Lines: means "
    "over the heads of a layer."
)
MAPS = (
    "Maps: of the effective receptive field of the middle unit of the last layer (field, square root), attention "
    "rollout (Abnar and Zuidema 2020), and gradient-weighted relevance of the predicted label (Chefer et al. 2021). "
    "Each is relative to its own maximum."
)


@dataclass(frozen=True)
class FigureEntry:
    """How a figure is drawn and described. Dictionaries have a value for images ("px") and for speech ("ms").

    Args:
        title: A short heading.
        draw: Draws the results.
        caption: What is plotted, what the axes are, and how to read it.
        numbers: Numbers by which the alternative text ranks the models.
        needs: The attribute of `Result` without which a model is not drawn.
        untrained: Whether untrained states are drawn beside trained ones.
    """

    title: str
    draw: Draw | dict[str, Draw]
    caption: str | dict[str, str]
    numbers: Numbers | dict[str, Numbers]
    needs: str | None = None
    untrained: bool = False


@dataclass(frozen=True)
class CaptionedFigure:
    """A figure with its texts."""

    figure: Figure
    title: str
    caption: str
    alt: str


FIGURES = {
    "fields": FigureEntry(
        "Effective receptive fields",
        {"px": maps.draw_image_fields, "ms": maps.draw_speech_fields},
        {
            "px": f"Fraction of the gradient energy at each pixel, relative to the unit's center. {PANELS}Blue: the "
            "theoretical receptive field, if it fits. Dashed: the centered square with 90 % of the energy.",
            "ms": "Fraction of the gradient energy at each log-mel frame (x axis: ms from the unit; the past is left) "
            f"and mel bin (y axis: Hz). {PANELS}Blue: start and end of the theoretical receptive field, if within.",
        },
        {
            "px": {"square with 90 % of the energy, last layer": "cumulative.side_90"},
            "ms": {"span with 90 % of the energy, last layer": "cumulative.span_90"},
        },
    ),
    "energy": FigureEntry(
        "Energy by distance, last layer",
        {"px": maps.draw_image_energy, "ms": maps.draw_speech_energy},
        {
            "px": "Fraction of the energy within a radius in px around the unit's center. The farther left a curve "
            "rises, the smaller the effective receptive field. Horizontal lines: 50 % and 90 %.",
            "ms": "Fraction of the energy per 10 ms, on a logarithmic axis, against the time from the unit in ms: the "
            "past is left, the look-ahead right. Values below 10⁻⁶ are not drawn. Vertical lines: start and end of the "
            "theoretical receptive field.",
        },
        {
            "px": {"radius with 90 % of the energy": "cumulative.radius_90"},
            "ms": {"span with 90 % of the energy": "cumulative.span_90"},
        },
        untrained=True,
    ),
    "depth": FigureEntry(
        "Receptive field size by depth",
        {"px": curves.draw_sides, "ms": curves.draw_past_and_ahead},
        {
            "px": "Side of the centered square that contains 50 % (left) and 90 % (right) of the energy; top: in px, "
            f"before and after training; bottom: as a fraction of the image side, at two image sizes. {OVER_DEPTH}",
            "ms": "Time that contains 90 % of the energy of the past (below zero) and of the look-ahead (above). "
            f"{OVER_DEPTH}",
        },
        {
            "px": {
                "square with 50 % of the energy, last layer": "cumulative.side_50",
                "90 %": "cumulative.side_90",
            },
            "ms": {
                "90 % of the energy of the past, last layer": "cumulative.back_90",
                "of the look-ahead": "cumulative.ahead_90",
            },
        },
        untrained=True,
    ),
    "blocks": FigureEntry(
        "Receptive fields of single blocks",
        curves.draw_blocks,
        "Width of each block's own receptive field, measured from the previous layer shown: four standard deviations "
        "in {unit}. Left: the complete block. Right: without its residual paths, where there are any and a gradient is "
        "left. If the width on the right is much larger, the block mostly passes its input on.",
        {"width of the last block's field": "block.width", "without residual paths": "block_cut.width"},
    ),
    "states": FigureEntry(
        "Training and input size, last layer",
        curves.draw_states,
        {
            "px": f"Radius of the discs that contain 50 % (open) and 90 % (filled) of the energy, {ROWS}",
            "ms": "Time that contains 50 % (open) and 90 % (filled) of the energy of the past (left of zero) and of "
            f"the look-ahead (right), {ROWS}",
        },
        {
            "px": {"radius with 90 % of the energy": "cumulative.radius_90"},
            "ms": {"90 % of the energy of the past": "cumulative.back_90"},
        },
        untrained=True,
    ),
    "frequency": FigureEntry(
        "Frequency range by depth",
        {"ms": curves.draw_frequency},
        "Left: the frequencies in Hz below and above which 5 % of the energy lies. Right: the effective number of mel "
        "bins, (Σp)² / Σp² of their fractions p of the energy. With 95 % intervals over inputs.",
        {
            "lower end in Hz, last layer": "frequency.low_hz",
            "upper end": "frequency.high_hz",
            "effective mel bins": "frequency.effective_bins",
        },
    ),
    "heads": FigureEntry(
        "Attention heads",
        {"px": curves.draw_image_heads, "ms": curves.draw_speech_heads},
        {"px": HEADS, "ms": f"{HEADS} Diagonality is 1 if each token attends to itself only."},
        {"mean attention distance": "heads.distance", "relative to uniform attention": "heads.relative_distance"},
        needs="heads",
    ),
    "visible": FigureEntry(
        "{Quantity} within a window",
        curves.draw_visible,
        "{Quantity} when only {seen}, against {half} in {unit}, with 95 % intervals; the last point is the complete "
        "{input}. The panels differ in what replaces the rest. The tick on a curve marks the window from which on 90 % "
        "of its value for complete inputs is kept. For a model whose labels do not match the data, agreement with its "
        "own predictions for complete inputs takes the place of accuracy.",
        {"window radius that keeps 90 % of the {quantity}, training mean outside": "visible.mean"},
        needs="visible",
    ),
}
EXAMPLES = {
    "px": f"Orange marks the pixels on which a model depends; predicted labels are below the maps. {MAPS}",
    "ms": "Over the spectrograms, orange marks the input on which a unit in the middle of the clip depends; the panels "
    f"below show maps over time. {MAPS}",
}


def draw_figures(results: Sequence[Result], sample: Sample) -> dict[str, CaptionedFigure]:
    """Every figure for which there are measurements, keyed by its file name without the suffix."""
    unit = results[0].subject.unit

    def of_unit(value: object) -> object:
        return value.get(unit) if isinstance(value, dict) and value.keys() <= WORDS.keys() else value

    words = WORDS[unit] | {"quantity": curves.quantity(results), "Quantity": curves.quantity(results).capitalize()}
    figures = {}
    for name, entry in FIGURES.items():
        draw = of_unit(entry.draw)
        if draw is None or (entry.needs and not any(getattr(result, entry.needs) for result in results)):
            continue
        title = entry.title.format_map(words)
        caption = of_unit(entry.caption).format_map(words) + zero_init_note(results, main_only=not entry.untrained)
        numbers = {what.format_map(words): path for what, path in of_unit(entry.numbers).items()}
        figures[name] = CaptionedFigure(draw(results), title, caption, alternative_text(title, results, numbers))
    if shown := [result for result in results if result.examples]:
        models = ", ".join(
            f"{result.subject.name} ({', '.join(example.what for example in result.examples)})" for result in results
        )
        figure = (maps.draw_clips if unit == "ms" else maps.draw_images)(shown, sample)
        figures["examples"] = CaptionedFigure(figure, "Single inputs", EXAMPLES[unit], f"Heat maps by model: {models}.")
    return figures


def zero_init_note(results: Sequence[Result], *, main_only: bool) -> str:
    """A sentence about untrained networks, or main states alone, whose residual branches were switched on."""
    notes = {
        result.subject.name: state.zero_init
        for result in results
        for state in ([result.main] if main_only else result.states)
        if state.zero_init
    }
    return "".join(f" * {name}, untrained: {note}." for name, note in notes.items())


def alternative_text(title: str, results: Sequence[Result], numbers: Numbers) -> str:
    """What a figure shows, with the models from the largest to the smallest value of each number."""
    unit = results[0].subject.unit
    parts = []
    for what, path in numbers.items():
        values = {result.subject.name: number_of(result, path) for result in results}
        measured = sorted((name for name, value in values.items() if value is not None), key=lambda n: -values[n])
        ranked = [f"{name} {short(values[name])}" for name in measured]
        ranked += [f"{name} not measured" for name, value in values.items() if value is None]
        parts.append(f"{what}: {', '.join(ranked)}")
    return f"{title}, lengths in {unit}, largest first. {'; '.join(parts)}."


def number_of(result: Result, path: str) -> float | None:
    """A number of a model; `None` if it was not measured.

    `heads.MEASURE` is a mean over all heads, `visible.REPLACEMENT` the radius that keeps 90 % of the accuracy, and
    `FIELD.NUMBER` a number of the last layer, such as `cumulative.side_90`.
    """
    of, number = path.split(".")
    if of == "heads":
        value = None if result.heads is None else float(getattr(result.heads, number).nanmean())
        return None if value is None or isnan(value) else value
    if of == "visible":
        return result.visible and result.keeps[number].value
    numbers = getattr(result.main.layers[-1], of)
    return numbers[number].value if numbers and number in numbers else None


def short(value: float) -> str:
    """A number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
