"""The report of a comparison: a self-contained page, every figure as a PNG, every number as JSON and CSV."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from PIL import Image

from vitspeech.files import write_csv, write_text
from vitspeech.provenance import provenance
from vitspeech.receptive.compare import Plan, Result
from vitspeech.receptive.differences import Pair, pairs
from vitspeech.receptive.fields.effective import UNITS
from vitspeech.receptive.figures.examples import draw_examples
from vitspeech.receptive.figures.layout import DPI, CaptionedFigure
from vitspeech.receptive.figures.pictures import image_figures
from vitspeech.receptive.figures.speech import speech_figures
from vitspeech.receptive.report import summary, table
from vitspeech.receptive.sample import Sample

PAGE, JSON, CSV = "report.html", "metrics.json", "metrics.csv"
COLORS = 256  # in a PNG: 40 % of the file size in true color; channels of the heat maps differ by at most 6 of 255


def write_report(results: Sequence[Result], sample: Sample, plan: Plan, folder: Path) -> Path:
    """Write `report.html`, which embeds its figures, a PNG for each figure, `metrics.json` and `metrics.csv`.

    Args:
        results: The models from `compare`, at least one.
        sample: The inputs of the measurement.
        plan: The settings of the measurement.
        folder: Created if it does not exist; files of an earlier report are replaced.

    Returns:
        The path of the page.

    Raises:
        FileExistsError: If `folder` is a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = speech_figures(results) if results[0].subject.takes_audio else image_figures(results)
    if any(result.examples for result in results):
        figures = figures | {"examples": draw_examples(results, sample)}
    origin, compared = provenance(), pairs(results)
    metrics = {"data": sample.origin, "inputs": min(plan.inputs, len(sample.raw)), "models": table.as_json(results)}
    metrics |= {"differences": table.differences_json(compared), **origin}
    write_text(json.dumps(metrics, indent=1, allow_nan=False) + "\n", folder / JSON)
    write_csv(folder / CSV, table.COLUMNS, table.rows(results, compared))
    write_text(page(results, compared, sample, plan, save_figures(figures, folder), origin), folder / PAGE)
    return folder / PAGE


def save_figures(figures: dict[str, CaptionedFigure], folder: Path) -> list[dict[str, str]]:
    """Save each figure as a PNG, and return what the page shows of it: its texts and the embedded image."""
    entries = []
    for name, figure in figures.items():
        png = as_png(figure)
        (folder / f"{name}.png").write_bytes(png)
        entries.append(
            {
                "name": name,
                "title": figure.title,
                "caption": figure.caption,
                "alt": figure.alt,
                "png": base64.b64encode(png).decode(),
            }
        )
    return entries


def as_png(figure: CaptionedFigure) -> bytes:
    """The figure as a PNG with a palette of `COLORS`."""
    drawing, png = io.BytesIO(), io.BytesIO()
    figure.figure.savefig(drawing, format="png", dpi=DPI)
    image = Image.open(drawing).convert("RGB")
    image.quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    return png.getvalue()


def page(
    results: Sequence[Result],
    compared: Sequence[Pair],
    sample: Sample,
    plan: Plan,
    figures: list[dict[str, str]],
    origin: dict[str, Any],
) -> str:
    """The report as HTML."""
    loader = jinja2.PackageLoader("vitspeech.receptive.report", ".")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("report.html.jinja")
    columns, rows = summary.table(results)
    difference_columns, difference_rows = summary.model_differences(compared)
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    return template.render(
        title="Receptive fields of " + ", ".join(result.subject.name for result in results),
        origin=sample.origin,
        inputs=min(plan.inputs, len(sample.raw)),
        units=UNITS,
        speech=results[0].subject.takes_audio,
        columns=columns,
        rows=rows,
        difference_columns=difference_columns,
        difference_rows=difference_rows,
        summaries=[(result.subject.name, summary.sentences(result)) for result in results],
        missing=[(result.subject.name, what, why) for result in results for what, why in result.missing.items()],
        figures=figures,
        provenance=f"Commit {origin['commit']}, {origin['hardware']}, {versions}.",
    )
