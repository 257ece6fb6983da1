"""The report: what is in its files, and that they say the same."""

import base64
import csv
import json
import re
from html.parser import HTMLParser

import pytest

from vitspeech.receptive.comparison import Plan, compare
from vitspeech.receptive.fields.extent import Estimate
from vitspeech.receptive.figures.examples import moments_ms
from vitspeech.receptive.report import summary
from vitspeech.receptive.report.page import write_report
from vitspeech.receptive.report.table import COLUMNS, unit_of
from vitspeech.receptive.sample import sample_for
from vitspeech.receptive.subjects import subject

PLAN = Plan(inputs=3, answers=5)


@pytest.fixture(scope="module")
def pictures(finished_run, tmp_path_factory):
    """A tiny ViT and an untrained ResNet beside each other: results, and the folder of their report."""
    subjects = [subject(str(finished_run)), subject("timm:resnet10t", size=32)]
    sample = sample_for(subjects, None, 5)
    results = compare(subjects, sample, PLAN)
    folder = tmp_path_factory.mktemp("report") / "pictures"
    assert write_report(results, sample, PLAN, folder) == folder / "report.html"
    return results, folder


@pytest.fixture(scope="module")
def speech(finished_speech_run, tmp_path_factory):
    """A tiny truncated recognizer."""
    subjects = [subject(str(finished_speech_run))]
    sample = sample_for(subjects, None, 5)
    results = compare(subjects, sample, PLAN)
    folder = tmp_path_factory.mktemp("report") / "speech"
    write_report(results, sample, PLAN, folder)
    return results, folder


class Page(HTMLParser):
    """What a page shows and asks for."""

    def __init__(self, text):
        super().__init__()
        self.asked, self.open, self.cells = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.asked += [value for name, value in attributes if name in ("src", "href", "data")]
        self.asked += [value for name, value in attributes if tag in ("link", "script", "iframe")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_page_needs_nothing_but_itself(which, request):
    page = Page((request.getfixturevalue(which)[1] / "report.html").read_text())
    assert page.open == [] and page.asked
    assert all(asked.startswith("data:image/png;base64,") for asked in page.asked)


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_every_figure_of_the_page_is_a_png_of_the_folder(which, request):
    folder = request.getfixturevalue(which)[1]
    embedded = [base64.b64decode(asked.partition(",")[2]) for asked in Page((folder / "report.html").read_text()).asked]
    saved = sorted(file.read_bytes() for file in folder.glob("*.png"))
    assert sorted(embedded) == saved and len(saved) >= 6
    assert all(picture.startswith(b"\x89PNG") for picture in saved)


def test_table_of_the_page_has_a_line_a_model_and_the_numbers_of_the_json(pictures):
    results, folder = pictures
    columns, rows = summary.table(results)
    cells = Page((folder / "report.html").read_text()).cells
    assert all(cell in cells for cell in [*columns, *(cell for row in rows for cell in row)])
    measured = json.loads((folder / "metrics.json").read_text())
    value, low, high = measured["models"][0]["states"][0]["layers"][-1]["cumulative"]["side_90"]
    assert f"{value:.1f} ({low:.1f}–{high:.1f}) px" in cells


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_csv_has_every_number_of_the_json(which, request):
    results, folder = request.getfixturevalue(which)
    measured = json.loads((folder / "metrics.json").read_text())
    with (folder / "metrics.csv").open() as file:
        table = csv.DictReader(file)
        rows = list(table)
    assert tuple(table.fieldnames) == COLUMNS
    found = {(r["model"], r["trained"], r["size"], r["layer"], r["of"], r["number"]): float(r["value"]) for r in rows}
    for model, result in zip(measured["models"], results, strict=True):
        for state in model["states"]:
            for layer in state["layers"]:
                place = (model["name"], str(state["trained"]), str(state["size"]), layer["name"])
                for name, estimate in layer["cumulative"].items():
                    assert found[*place, "input to layer", name] == estimate[0]
        assert model["parameters"] == result.parameters
    assert {row["unit"] for row in rows} <= {"px", "px²", "ms", "Hz", "1"}
    assert all(re.fullmatch(r"-?[\d.e+-]+|inf", row["value"]) for row in rows)


def test_what_could_not_be_measured_is_named_with_its_reason(pictures):
    results, folder = pictures
    page = (folder / "report.html").read_text()
    missing = results[1].missing
    assert {"weights", "attention", "accuracy against what is visible"} <= set(missing)
    assert "has no attention layer" in missing["attention"]
    assert all(reason in page for reason in missing.values())


def test_report_says_where_its_numbers_come_from(pictures):
    measured = json.loads((pictures[1] / "metrics.json").read_text())
    assert measured["data"] == "5 validation images of Shapes" and measured["inputs"] == 3
    assert {"commit", "hardware", "versions"} <= set(measured)


def test_names_are_escaped(pictures, tmp_path):
    results = pictures[0]
    results[1].missing["<b>"] = "a < b & c"
    try:
        sample = sample_for([results[0].subject], None, 5)
        page = write_report(results, sample, PLAN, tmp_path / "report").read_text()
    finally:
        del results[1].missing["<b>"]
    assert "&lt;b&gt;" in page and "a &lt; b &amp; c" in page


@pytest.mark.parametrize(
    "before, after, said",
    [
        ((10, 9, 11), (13, 12, 14), "widened"),
        ((13, 12, 14), (10, 9, 11), "narrowed"),
        ((10, 9, 11), (11, 10, 12), "stayed, within the intervals"),
    ],
)
def test_sentences_claim_a_change_only_outside_of_the_intervals(before, after, said):
    assert summary.change(Estimate(*before), Estimate(*after)) == said


@pytest.mark.parametrize(
    "number, unit",
    [("side_90", "px"), ("effective_pixels", "px²"), ("anisotropy", "1"), ("low_hz", "Hz"), ("entropy", "1")],
)
def test_every_number_has_its_unit(number, unit):
    assert unit_of(number, "px") == unit


def test_sentences_of_speech_tell_past_and_look_ahead_apart(speech):
    result = speech[0][0]
    back, ahead = result.main.layers[-1].reach
    assert back > ahead > 0
    assert f"{back:.0f} ms back and {ahead:.0f} ms ahead" in summary.sentences(result)[0]


def test_tokens_are_drawn_at_the_middle_of_their_frames(speech):
    layer = speech[0][0].main.layers[-1]
    tokens = speech[0][0].subject.model.network.tokens
    middle = (tokens.frames.reach / 2) * tokens.log_mel.hop_ms
    assert moments_ms(layer, 3).tolist() == pytest.approx([middle + number * layer.stride for number in range(3)])
