"""The report of a comparison: every number as JSON, every figure as a PNG, and a self-contained page of them.

`FIGURES` is the only table of captions. Where images ("px") and speech ("ms") differ, an entry has a value for each;
other captions take the words of `WORDS`. Alternative texts rank the models by a number of each figure, so they stay
true when the models change.
"""

import base64
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import jinja2
from matplotlib.figure import Figure
from PIL import Image

from vitspeech.files import write_text
from vitspeech.provenance import provenance
from vitspeech.receptive.compare import Result
from vitspeech.receptive.differences import pairs
from vitspeech.receptive.fields.effective import PROBE_UNITS
from vitspeech.receptive.plan import Plan
from vitspeech.receptive.report import curves, maps
from vitspeech.receptive.report.numbers import WIDEST, main_results, model_json, pair_json
from vitspeech.receptive.sample import Sample

PAGE, JSON = "report.html", "metrics.json"
DPI = 180  # 1,260 px
COLORS = 256  # in a PNG: 40 % of the file size in true color; channels of the heat maps differ by at most 6 of 255
Draw = Callable[[Sequence[Result]], Figure]

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
    """How a figure is drawn and described. Dictionaries have a value for images ("px") and for speech ("ms")."""

    title: str  # a short heading
    draw: Draw | dict[str, Draw]  # draws the results
    caption: str | dict[str, str]  # what is plotted, what the axes are, and how to read it
    # what the alternative text ranks the models by, and where `number_of` finds it
    number: tuple[str, str] = ("90 % of the energy of the last layer", "cumulative.{widest}")
    needs: str | None = None  # the attribute of `Result` without which a model is not drawn
    untrained: bool = False  # whether untrained states are drawn beside trained ones


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
        untrained=True,
    ),
    "depth": FigureEntry(
        "Receptive field size by depth",
        {"px": curves.draw_sides, "ms": curves.draw_past_and_ahead},
        {
            "px": "Side of the centered square that contains 50 % (left) and 90 % (right) of the energy; top: in px, "
            f"in each state of training; bottom: as a fraction of the image side, at each image size. {OVER_DEPTH}",
            "ms": "Time that contains 90 % of the energy of the past (below zero) and of the look-ahead (above). "
            f"{OVER_DEPTH}",
        },
        untrained=True,
    ),
    "blocks": FigureEntry(
        "Receptive fields of single blocks",
        curves.draw_blocks,
        "Width of each block's own receptive field, measured from the previous layer shown: four standard deviations "
        "in {unit}. Left: the complete block. Right: without its residual paths, where there are any and a gradient is "
        "left. If the width on the right is much larger, the block mostly passes its input on.",
        ("width of the last block's field", "block.width"),
    ),
    "states": FigureEntry(
        "Training and input size, last layer",
        curves.draw_states,
        {
            "px": f"Radius of the discs that contain 50 % (open) and 90 % (filled) of the energy, {ROWS}",
            "ms": "Time that contains 50 % (open) and 90 % (filled) of the energy of the past (left of zero) and of "
            f"the look-ahead (right), {ROWS}",
        },
        untrained=True,
    ),
    "frequency": FigureEntry(
        "Frequency range by depth",
        {"ms": curves.draw_frequency},
        "Left: the frequencies in Hz below and above which 5 % of the energy lies. Right: the effective number of mel "
        "bins, (Σp)² / Σp² of their fractions p of the energy. With 95 % intervals over inputs.",
        ("effective mel bins, last layer", "frequency.effective_bins"),
    ),
    "heads": FigureEntry(
        "Attention heads",
        {"px": curves.draw_image_heads, "ms": curves.draw_speech_heads},
        {"px": HEADS, "ms": f"{HEADS} Diagonality is 1 if each token attends to itself only."},
        ("mean attention distance", "heads.distance"),
        needs="heads",
    ),
    "visible": FigureEntry(
        "{Quantity} within a window",
        curves.draw_visible,
        "{Quantity} when only {seen}, against {half} in {unit}, with 95 % intervals; the last point is the complete "
        "{input}. The panels differ in what replaces the rest. The tick on a curve marks the window from which on 90 % "
        "of its value for complete inputs is kept. For a model whose labels do not match the data, agreement with its "
        "own predictions for complete inputs takes the place of accuracy.",
        ("window radius that keeps 90 % of the {quantity}, training mean outside", "visible.mean"),
        needs="visible",
    ),
}
EXAMPLES = {
    "px": f"Orange marks the pixels on which a model depends; predicted labels (if known) are below the maps. {MAPS}",
    "ms": "Over the spectrograms, orange marks the input on which a unit in the middle of the clip depends; the panels "
    f"below show maps over time. {MAPS}",
}


def draw_figures(results: Sequence[Result], sample: Sample) -> dict[str, CaptionedFigure]:
    """Every figure for which there are measurements, keyed by its file name without the suffix."""
    unit = results[0].subject.unit

    def of_unit(value: object) -> object:
        return value.get(unit) if isinstance(value, dict) else value

    quantity = curves.quantity(results)
    words = WORDS[unit] | {"quantity": quantity, "Quantity": quantity.capitalize(), "widest": WIDEST[unit]}
    figures = {}
    for name, entry in FIGURES.items():
        draw = of_unit(entry.draw)
        drawn = [result for result in results if not entry.needs or getattr(result, entry.needs)]
        if draw is None or not drawn:
            continue
        title = entry.title.format_map(words)
        caption = of_unit(entry.caption).format_map(words) + zero_init_note(drawn, main_only=not entry.untrained)
        number = (part.format_map(words) for part in entry.number)
        figures[name] = CaptionedFigure(draw(results), title, caption, alternative_text(title, results, *number))
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


def alternative_text(title: str, results: Sequence[Result], what: str, path: str) -> str:
    """What a figure shows, with the models from the largest to the smallest value of a number."""
    values = {result.subject.name: number_of(result, path) for result in results}
    ranked = sorted((name for name, value in values.items() if value is not None), key=lambda name: -values[name])
    texts = [f"{name} {values[name]:,.1f}" for name in ranked]
    texts += [f"{name} not measured" for name, value in values.items() if value is None]
    return f"{title}. {what}, lengths in {results[0].subject.unit}, largest first: {', '.join(texts)}."


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


def write_report(results: Sequence[Result], sample: Sample, plan: Plan, folder: Path) -> Path:
    """Write `report.html`, which embeds its figures, a PNG for each figure, and `metrics.json`.

    The folder is created if it does not exist; files of an earlier report are replaced. Returns the path of the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    origin, inputs = provenance(), min(plan.inputs, len(sample.raw))
    metrics = {"data": sample.origin, "inputs": inputs, "models": [model_json(result) for result in results]}
    metrics |= {"differences": [pair_json(pair) for pair in pairs(results)], **origin}
    write_text(json.dumps(metrics, indent=1, allow_nan=False) + "\n", folder / JSON)
    figures, images = draw_figures(results, sample), {}
    for name, figure in figures.items():
        png = as_png(figure.figure)
        (folder / f"{name}.png").write_bytes(png)
        images[name] = base64.b64encode(png).decode()
    loader = jinja2.PackageLoader("vitspeech.receptive.report", ".")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("report.html.jinja")
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    page = template.render(
        title="Receptive fields of " + ", ".join(result.subject.name for result in results),
        origin=sample.origin,
        inputs=inputs,
        units=PROBE_UNITS,
        speech=results[0].subject.takes_audio,
        tables=main_results(results),
        missing=[(result.subject.name, what, why) for result in results for what, why in result.missing.items()],
        figures=figures,
        images=images,
        provenance=f"Commit {origin['commit']}, {origin['hardware']}, {versions}.",
    )
    write_text(page, folder / PAGE)
    return folder / PAGE


def as_png(figure: Figure) -> bytes:
    """The figure as a PNG with a palette of `COLORS`."""
    drawing, png = io.BytesIO(), io.BytesIO()
    figure.savefig(drawing, format="png", dpi=DPI)
    image = Image.open(drawing).convert("RGB")
    image.quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    return png.getvalue()
