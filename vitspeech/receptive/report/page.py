"""The report of a comparison: a self-contained page, every figure as a PNG, every number as JSON and CSV."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path

import jinja2
from matplotlib.figure import Figure
from PIL import Image

from vitspeech.files import write_csv, write_text
from vitspeech.provenance import provenance
from vitspeech.receptive.compare import Plan, Result
from vitspeech.receptive.differences import pairs
from vitspeech.receptive.fields.effective import PROBE_UNITS
from vitspeech.receptive.report import numbers, table
from vitspeech.receptive.report.figures import draw_figures
from vitspeech.receptive.sample import Sample

PAGE, JSON, CSV = "report.html", "metrics.json", "metrics.csv"
DPI = 180  # 1,260 px
COLORS = 256  # in a PNG: 40 % of the file size in true color; channels of the heat maps differ by at most 6 of 255


def write_report(results: Sequence[Result], sample: Sample, plan: Plan, folder: Path) -> Path:
    """Write `report.html`, which embeds its figures, a PNG for each figure, `metrics.json` and `metrics.csv`.

    The folder is created if it does not exist; files of an earlier report are replaced. Returns the path of the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    origin, compared, inputs = provenance(), pairs(results), min(plan.inputs, len(sample.raw))
    metrics = {"data": sample.origin, "inputs": inputs, "models": [numbers.model_json(result) for result in results]}
    metrics |= {"differences": [numbers.pair_json(pair) for pair in compared], **origin}
    write_text(json.dumps(metrics, indent=1, allow_nan=False) + "\n", folder / JSON)
    write_csv(folder / CSV, numbers.COLUMNS, numbers.csv_rows(results, compared))
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
        tables={"Results": table.main_results(results), "Differences": table.differences(compared)},
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
