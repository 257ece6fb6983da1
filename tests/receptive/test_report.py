"""The report: the content of its files, and that they agree."""

import base64
import json
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pytest
import torch

from vitspeech.receptive.differences import MIXED, MODELS, SIZE, TRAINING, pairs
from vitspeech.receptive.occlusion import VisibleAccuracy
from vitspeech.receptive.plan import Plan
from vitspeech.receptive.report.maps import unit_times_ms
from vitspeech.receptive.report.numbers import main_results, model_json, pair_json
from vitspeech.receptive.report.page import write_report

PLAN = Plan(inputs=3, answers=5)


@pytest.fixture(scope="module")
def pictures(images_compared, tmp_path_factory):
    """The results of the images, and the folder of their report."""
    results, sample = images_compared
    results = [replace(results[0], missing={"<b>": "a < b & c"}), *results[1:]]
    folder = tmp_path_factory.mktemp("report") / "pictures"
    assert write_report(results, sample, PLAN, folder) == folder / "report.html"
    return results, folder


@pytest.fixture(scope="module")
def speech(speech_compared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "speech"
    write_report(*speech_compared, PLAN, folder)
    return speech_compared[0], folder


class Page(HTMLParser):
    """The embedded and linked files, the alternative texts and the table cells of a page."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.links, self.alternatives, self.open, self.cells = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.sources += [value for name, value in attributes if name in ("src", "data")]
        self.sources += [value for name, value in attributes if tag in ("link", "script", "iframe")]
        self.links += [value for name, value in attributes if name == "href"]
        self.alternatives += [value for name, value in attributes if name == "alt"]
        if tag not in ("meta", "img", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


def rows_of(results):
    """All rows of both tables."""
    return [row for table in main_results(results) for row in table.rows]


def page_of(folder):
    return Page((folder / "report.html").read_text())


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_the_page_embeds_every_png_of_the_folder_with_a_text_that_names_every_model(which, request):
    results, folder = request.getfixturevalue(which)
    page = page_of(folder)
    assert page.open == [] and len(page.sources) == len(page.links) == len(page.alternatives) >= 6
    assert sorted(page.links) == sorted(file.name for file in folder.glob("*.png"))
    for source, link in zip(page.sources, page.links, strict=True):
        assert source.startswith("data:image/png;base64,")
        assert base64.b64decode(source.partition(",")[2]) == (folder / link).read_bytes()
    assert all(result.subject.name in text for text in page.alternatives for result in results)
    text = (folder / "report.html").read_text()
    assert all(escape(reason) in text for result in results for item in result.missing.items() for reason in item)
    assert ("that of the image, since offsets run both ways" in text) == (which == "pictures")


def test_the_table_has_a_column_per_model_and_the_numbers_of_the_json(pictures):
    results, folder = pictures
    shown, others = main_results(results)
    rows, columns, cells = rows_of(results), shown.columns, page_of(folder).cells
    assert columns == others.columns == ["", *(result.subject.name for result in results)]
    assert len(shown.rows) == 9 and len(others.rows) > 0
    assert all(cell in cells for row in rows for cell in row) and all(len(row) == len(columns) for row in rows)
    last = json.loads((folder / "metrics.json").read_text())["models"][0]["states"][0]["layers"][-1]
    value, low, high = last["cumulative"]["side_90"]
    uniform = last["uniform"]["cumulative"]["side_90"]
    cells = dict(zip((row[0] for row in rows), (row[1] for row in rows), strict=True))
    assert cells["90 % of the energy (side)"] == f"{value:.1f} ({low:.1f}–{high:.1f}) px"
    assert cells["90 % of a uniform field"] == f"{uniform:.1f} px"
    lines = str(shown).splitlines()
    assert len(lines) == 1 + len(shown.rows) and len({line.find("trained") for line in lines if "state" in line}) == 1


def test_the_json_says_on_what_and_how_it_was_measured(pictures):
    results, folder = pictures
    measured = json.loads((folder / "metrics.json").read_text())
    assert measured["data"].startswith("5 validation ") and measured["inputs"] == 3
    assert {"commit", "hardware", "versions"} <= set(measured)
    assert [model["parameters"] for model in measured["models"]] == [result.parameters for result in results]


def test_zero_initialized_residual_branches_are_noted_in_page_and_json(pictures):
    (_, resnet), folder = pictures
    note = resnet.main.zero_init
    assert note.startswith("residual branches are multiplied by 0 at initialization")
    assert (folder / "report.html").read_text().count(note) >= 3  # captions of figures with the untrained state
    value, low, high = resnet.main.as_initialized.cumulative["side_90"]
    assert f"{value:.1f} ({low:.1f}–{high:.1f}) px" in page_of(folder).cells
    states = [model["states"][0] for model in json.loads((folder / "metrics.json").read_text())["models"]]
    assert states[1]["zero_init"] == note and states[1]["as_initialized"]["cumulative"]["side_90"][0] == value
    assert "zero_init" not in states[0] and "as_initialized" not in states[0]


def test_heads_that_see_their_own_token_only_have_numbers_that_are_undefined(pictures):
    heads = pictures[0][0].heads
    measures = {name: getattr(heads, name).clone() for name in ("relative_distance", "entropy")}
    for measure in measures.values():
        measure[0] = torch.nan
    results = [replace(pictures[0][0], heads=replace(heads, **measures))]
    attention = model_json(results[0])["attention"]
    assert set(attention["entropy"][0]) == {None} and None not in attention["entropy"][1]
    undefined = {name: torch.full_like(measure, torch.nan) for name, measure in measures.items()}
    for measured in (results, [replace(results[0], heads=replace(heads, **undefined))]):
        cells = [cell for row in rows_of(measured) for cell in row]
        assert not any("nan" in cell for cell in cells) and "mean attention distance" in cells


def test_the_report_holds_every_paired_difference(pictures):
    results, folder = pictures
    compared = pairs(results)
    assert [pair.kind for pair in compared] == [TRAINING, SIZE, SIZE, MODELS]
    stored = json.loads((folder / "metrics.json").read_text())["differences"]
    vit, resnet = (result.subject.name for result in results)
    assert [(pair["first"]["name"], pair["second"]["name"]) for pair in stored[2:]] == [(resnet, resnet), (vit, resnet)]
    for pair, of_json in zip(compared, stored, strict=True):
        assert [d.number for d in pair.differences] == ["side_50", "side_90"]
        for d in pair.differences:
            found = of_json["numbers"][d.number]
            assert found["difference"] == list(d.change) and found["first"][0] - found["second"][0] == pytest.approx(
                d.change.value
            )
            assert d.change.low <= d.change.value <= d.change.high


def test_agreement_of_a_model_without_matching_labels_is_not_reported_as_accuracy(pictures):
    vit = pictures[0][0]
    foreign = replace(
        vit,
        subject=replace(vit.subject, name="foreign"),
        visible=VisibleAccuracy(vit.visible.radii, vit.visible.correct, agreement=True),
    )
    results = [vit, foreign]
    compared = pairs(results)
    rows = {row[0]: row[1:] for row in rows_of(results)}
    assert [cell == "–" for cell in rows["accuracy on these inputs"]] == [False, True]
    assert [*rows][1] == "accuracy on these inputs"  # what one looks for first
    kept = "window radius for 90 % agreement with its own predictions, mean outside"
    assert [cell == "–" for cell in rows[kept]] == [True, False]
    visible = [model_json(result)["visible"] for result in results]
    assert [("accuracy" in part, "agreement" in part) for part in visible] == [(True, False), (False, True)]
    assert all(curve[-1] == (1, 1) for curve in visible[1]["interval_95"].values())
    # Windows for accuracy and for agreement are not compared.
    of_models = pair_json(compared[-1])
    assert of_models["numbers"].keys() == {"side_50", "side_90"} and of_models["not_compared"] == MIXED


def test_the_theoretical_field_of_speech_distinguishes_past_and_look_ahead(speech):
    back, ahead = speech[0][0].main.layers[-1].theoretical
    assert back > ahead > 0
    assert ["theoretical field", f"past {back:.0f} ms, look-ahead {ahead:.0f} ms"] in rows_of(speech[0])


def test_tokens_are_drawn_at_the_middle_of_their_frames(speech):
    layer = speech[0][0].main.layers[-1]
    tokens = speech[0][0].subject.model.network.tokens
    middle = (tokens.frames.receptive_field / 2) * tokens.log_mel.hop_ms
    assert unit_times_ms(layer, 3).tolist() == pytest.approx([middle + number * layer.stride for number in range(3)])
