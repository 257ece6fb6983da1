"""The report of a comparison: one self-contained page, every picture as a PNG, every number as JSON and CSV."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from vitspeech.data.files import write_csv
from vitspeech.provenance import provenance
from vitspeech.receptive.comparison import Plan, Result
from vitspeech.receptive.fields.effective import UNITS
from vitspeech.receptive.figures.examples import draw_examples
from vitspeech.receptive.figures.layout import Drawn
from vitspeech.receptive.figures.pictures import figures_of_pictures
from vitspeech.receptive.figures.speech import figures_of_speech
from vitspeech.receptive.report import summary, table
from vitspeech.receptive.sample import Sample

PAGE, JSON, CSV = "report.html", "metrics.json", "metrics.csv"


def write_report(results: Sequence[Result], sample: Sample, plan: Plan, folder: Path) -> Path:
    """Write `report.html` (no network needed to read it), a PNG for each picture, `metrics.json` and `metrics.csv`.

    Args:
        results: From `compare`, at least one.
        sample: What it was measured on.
        plan: How much of it.
        folder: Made if it is not there; files of an older report are replaced.

    Returns:
        The page.

    Raises:
        FileExistsError: If `folder` is a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = figures_of_speech(results) if results[0].subject.hears else figures_of_pictures(results)
    if any(result.examples for result in results):
        drawn = drawn | {"examples": draw_examples(results, sample)}
    origin = provenance()
    measured = {"data": sample.origin, "inputs": plan.inputs, "models": table.as_json(results), **origin}
    (folder / JSON).write_text(json.dumps(measured, indent=1, allow_nan=False) + "\n")
    write_csv(folder / CSV, table.COLUMNS, table.rows(results))
    (folder / PAGE).write_text(page(results, sample, plan, pictures(drawn, folder), origin))
    return folder / PAGE


def pictures(drawn: dict[str, Drawn], folder: Path) -> list[dict[str, str]]:
    """Save each picture, and give what the page shows of it."""
    shown = []
    for name, picture in drawn.items():
        buffer = io.BytesIO()
        picture.figure.savefig(buffer, format="png", dpi=120)
        (folder / f"{name}.png").write_bytes(buffer.getvalue())
        png = base64.b64encode(buffer.getvalue()).decode()
        shown.append({"name": name, "title": picture.title, "caption": picture.caption, "png": png})
    return shown


def page(
    results: Sequence[Result],
    sample: Sample,
    plan: Plan,
    figures: list[dict[str, str]],
    origin: dict[str, Any],
) -> str:
    """The report as HTML."""
    loader = jinja2.PackageLoader("vitspeech.receptive.report", ".")
    template = jinja2.Environment(loader=loader, autoescape=True).get_template("report.html.jinja")
    columns, rows = summary.table(results)
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    return template.render(
        title="What they see: " + ", ".join(result.subject.name for result in results),
        origin=sample.origin,
        inputs=min(plan.inputs, len(sample.raw)),
        units=UNITS,
        columns=columns,
        rows=rows,
        words=[(result.subject.name, summary.sentences(result)) for result in results],
        missing=[(result.subject.name, what, why) for result in results for what, why in result.missing.items()],
        figures=figures,
        provenance=f"Commit {origin['commit']}, {origin['hardware']}, {versions}.",
    )
