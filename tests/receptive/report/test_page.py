"""The report: the content of its files, and that they agree."""

import base64
import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from vitspeech.receptive.figures.examples import unit_times_ms
from vitspeech.receptive.occlusion.accuracy import VisibleAccuracy

from vitspeech.receptive.compare import Plan, compare
from vitspeech.receptive.differences import MIXED, MODELS, SIZE, TRAINING, difference, pairs
from vitspeech.receptive.report import summary
from vitspeech.receptive.report.page import write_report
from vitspeech.receptive.report.table import COLUMNS, as_json, differences_json, unit_of
from vitspeech.receptive.report.table import rows as rows_of_csv
from vitspeech.receptive.sample import sample_for
from vitspeech.receptive.subjects import subject

PLAN = Plan(inputs=3, answers=5)


@pytest.fixture(scope="module")
def pictures(finished_run, tmp_path_factory):
    """A tiny ViT and an untrained ResNet: their results and the folder of the report."""
    subjects = [subject(str(finished_run)), subject("timm:resnet10t", size=32)]
    sample = sample_for(subjects, None, 5)
    results = compare(subjects, sample, PLAN)
    folder = tmp_path_factory.mktemp("report") / "pictures"
    assert write_report(results, sample, PLAN, folder) == folder / "report.html"
    return results, folder


@pytest.fixture(scope="module")
def speech(finished_speech_run, tmp_path_factory):
    """A tiny speech classifier with truncated attention: its results and the folder of the report."""
    subjects = [subject(str(finished_speech_run))]
    sample = sample_for(subjects, None, 5)
    results = compare(subjects, sample, PLAN)
    folder = tmp_path_factory.mktemp("report") / "speech"
    write_report(results, sample, PLAN, folder)
    return results, folder


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
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


def page_of(folder):
    return Page((folder / "report.html").read_text())


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_page_embeds_its_images_and_is_well_formed(which, request):
    page = page_of(request.getfixturevalue(which)[1])
    assert page.open == [] and page.sources
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_each_figure_of_the_page_links_to_its_full_size_png(which, request):
    folder = request.getfixturevalue(which)[1]
    page = page_of(folder)
    assert len(page.links) == len(page.sources)
    for source, link in zip(page.sources, page.links, strict=True):
        assert base64.b64decode(source.partition(",")[2]) == (folder / link).read_bytes()


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_alternative_texts_of_the_page_name_every_model(which, request):
    results, folder = request.getfixturevalue(which)
    page = page_of(folder)
    assert len(page.alternatives) == len(page.sources)
    assert all(result.subject.name in text for text in page.alternatives for result in results)


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_every_embedded_figure_is_a_png_of_the_folder(which, request):
    folder = request.getfixturevalue(which)[1]
    embedded = [base64.b64decode(source.partition(",")[2]) for source in page_of(folder).sources]
    saved = sorted(file.read_bytes() for file in folder.glob("*.png"))
    assert sorted(embedded) == saved and len(saved) >= 6
    assert all(png.startswith(b"\x89PNG") for png in saved)


def test_table_of_the_page_has_one_row_per_model_and_the_numbers_of_the_json(pictures):
    results, folder = pictures
    columns, rows = summary.table(results)
    cells = page_of(folder).cells
    assert all(cell in cells for cell in [*columns, *(cell for row in rows for cell in row)])
    measured = json.loads((folder / "metrics.json").read_text())
    value, low, high = measured["models"][0]["states"][0]["layers"][-1]["cumulative"]["side_90"]
    assert f"{value:.1f} ({low:.1f}–{high:.1f}) px" in cells


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_csv_contains_every_number_of_the_json(which, request):
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


def test_missing_measurements_are_listed_with_their_reason(pictures):
    results, folder = pictures
    page = (folder / "report.html").read_text()
    missing = results[1].missing
    assert {"weights", "attention", "accuracy against what is visible"} <= set(missing)
    assert "has no attention layer" in missing["attention"]
    assert all(reason in page for reason in missing.values())


def test_zero_initialized_residual_branches_are_noted_in_page_sentences_json_and_csv(pictures):
    (vit, resnet), folder = pictures
    note = resnet.main.zero_init
    assert note.startswith("residual branches are multiplied by 0 at initialization")
    page, cells = (folder / "report.html").read_text(), page_of(folder).cells
    assert page.count(note) >= 4  # the summary, and the captions of figures with the untrained state
    assert any(note in sentence for sentence in summary.sentences(resnet))
    assert not any("initialization" in sentence for sentence in summary.sentences(vit))
    value, low, high = resnet.main.as_initialized.cumulative["side_90"]
    assert f"{value:.1f} ({low:.1f}–{high:.1f}) px" in cells
    states = [model["states"][0] for model in json.loads((folder / "metrics.json").read_text())["models"]]
    assert states[1]["zero_init"] == note and states[1]["as_initialized"]["cumulative"]["side_90"][0] == value
    assert "zero_init" not in states[0] and "as_initialized" not in states[0]
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["note"] for row in rows if row["model"] == vit.subject.name} == {""}
    place = {"model": resnet.subject.name, "size": str(resnet.main.size), "number": "side_90"}
    before = {row["of"]: row for row in rows if place.items() <= row.items()}
    assert before["input to layer"]["note"] == note
    assert float(before["input to layer, as initialized, residual branches off"]["value"]) == value


def test_report_states_the_origin_of_its_numbers(pictures):
    measured = json.loads((pictures[1] / "metrics.json").read_text())
    assert measured["data"] == "5 validation images of Shapes" and measured["inputs"] == 3
    assert {"commit", "hardware", "versions"} <= set(measured)


def test_heads_that_see_their_own_token_only_have_numbers_that_are_undefined(pictures, tmp_path):
    heads = pictures[0][0].heads
    measures = {name: getattr(heads, name).clone() for name in ("relative_distance", "entropy")}
    for measure in measures.values():
        measure[0] = torch.nan
    results = [replace(pictures[0][0], heads=replace(heads, **measures))]
    write_report(results, sample_for([results[0].subject], None, 5), PLAN, tmp_path)
    attention = json.loads((tmp_path / "metrics.json").read_text())["models"][0]["attention"]
    assert set(attention["entropy"][0]) == {None} and None not in attention["entropy"][1]
    assert "nan" not in summary.attention(results[0])["mean attention entropy"]
    undefined = {name: torch.full_like(measure, torch.nan) for name, measure in measures.items()}
    cells = summary.attention(replace(results[0], heads=replace(heads, **undefined)))
    assert list(cells) == ["mean attention distance"] and "uniform" not in cells["mean attention distance"]


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
    "shift, text",
    [
        (3.0, "it widened (+3.0 px, +2.7 to +3.3)"),
        (-3.0, "it narrowed (−3.0 px, −3.3 to −2.7)"),
        (0.0, "no difference was found in it (+0.0 px, −0.3 to +0.3)"),
    ],
)
def test_sentences_report_a_change_by_the_interval_of_the_paired_difference(shift, text):
    generator = torch.Generator().manual_seed(0)
    before = 20 + 4 * torch.randn(1001, generator=generator).double()  # much wider than the shift
    noise = 0.18 * torch.randn(1001, generator=generator).double()
    before[0], noise[0] = 20, -0.01
    found = difference("side_50", before + shift + noise, before)
    assert found.first.low < found.second.high and found.second.low < found.first.high
    assert summary.change(found, "it", "px") == text


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
    columns, rows = summary.model_differences(compared)
    cells = page_of(folder).cells
    assert len(rows) == 2 and all(cell in cells for cell in [*columns, *rows[0], *rows[1]])
    with (folder / "metrics.csv").open() as file:
        table = [row for row in csv.DictReader(file) if row["of"].startswith(f"minus {resnet}, within ")]
    assert [float(row["value"]) for row in table] == [d.change.value for d in compared[-1].differences]


@pytest.mark.parametrize("which", ["pictures", "speech"])
def test_the_numbers_of_a_uniform_field_are_beside_each_number(which, request):
    results, folder = request.getfixturevalue(which)
    measured = json.loads((folder / "metrics.json").read_text())
    for model, result in zip(measured["models"], results, strict=True):
        for state, of in zip(model["states"], result.states, strict=True):
            for layer, numbers in zip(state["layers"], of.layers, strict=True):
                assert layer["uniform"] == numbers.uniform
                assert layer["uniform"]["cumulative"].keys() == layer["cumulative"].keys()
    number = "side_90" if which == "pictures" else "span_90"
    with (folder / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["number"] == number and row["of"].startswith("input to")]
    assert rows and all(float(row["uniform"]) > 0 for row in rows)
    last = results[0].main.layers[-1]
    digits, unit = (1, "px") if which == "pictures" else (0, "ms")
    assert f"{last.uniform['cumulative'][number]:.{digits}f} {unit}" in page_of(folder).cells


def test_the_window_that_keeps_the_accuracy_has_an_interval(pictures):
    results, folder = pictures
    stored = json.loads((folder / "metrics.json").read_text())["models"][0]["visible"]["keeps_90_px"]
    with (folder / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["number"] == "keeps_90"]
    for row, (name, kept) in zip(rows, results[0].visible.keeps().items(), strict=True):
        assert stored[name] == [float(row[end]) for end in ("value", "low", "high")] == list(kept)
        assert kept.low <= kept.value <= kept.high


def test_agreement_of_a_model_without_matching_labels_is_not_reported_as_accuracy(pictures):
    vit = pictures[0][0]
    foreign = replace(
        vit,
        subject=replace(vit.subject, name="foreign"),
        visible=VisibleAccuracy(vit.visible.radii, vit.visible.correct, agreement=True),
    )
    results = [vit, foreign]
    compared = pairs(results)
    columns, rows = summary.table(results)
    cells = [dict(zip(columns, row, strict=True)) for row in rows]
    kept = "window radius for 90 % agreement with its own predictions (px)"
    assert [row["accuracy on these inputs"] == "–" for row in cells] == [False, True]
    assert [row[kept] == "–" for row in cells] == [True, False]
    assert "The accuracy on complete inputs is" in summary.sentences(vit)[-1]
    assert summary.sentences(foreign)[-1].startswith(
        "Its labels do not match the data. 90 % of its predictions for complete inputs stay the same if the model is"
    )
    visible = [model["visible"] for model in as_json(results)]
    assert [("accuracy" in part, "agreement" in part) for part in visible] == [(True, False), (False, True)]
    assert all(curve[-1] == (1, 1) for curve in visible[1]["interval_95"].values())
    table = [dict(zip(COLUMNS, row, strict=True)) for row in rows_of_csv(results, compared)]
    for name, quantity in ((vit.subject.name, "accuracy"), ("foreign", "agreement")):
        found = [row for row in table if row["model"] == name and row["of"].startswith("visible")]
        assert {row["number"] for row in found} == {quantity, "keeps_90"} and len({row["note"] for row in found}) == 1
        assert ("agreement with the model's own predictions" in found[0]["note"]) == (name == "foreign")
    # Windows for accuracy and for agreement are not compared.
    of_models = differences_json(compared)[-1]
    assert of_models["numbers"].keys() == {"side_50", "side_90"} and of_models["not_compared"] == MIXED
    assert summary.model_differences(compared)[1][-1][1:] == ["window", "–", "–", "–", f"not compared: {MIXED}"]


def test_windows_are_compared_between_two_models_with_agreement(pictures):
    vit = pictures[0][0]
    foreign = replace(vit, visible=VisibleAccuracy(vit.visible.radii, vit.visible.correct, agreement=True))
    names = [row[1] for row in summary.model_differences(pairs([foreign, foreign]))[1]]
    assert names[2:] == [f"window for 90 % agreement, {name}" for name in ("mean", "blur", "shuffle")]
    names = [row[1] for row in summary.model_differences(pairs([vit, vit]))[1]]
    assert names[2:] == [f"window, {name}" for name in ("mean", "blur", "shuffle")]


@pytest.mark.parametrize(
    "number, unit",
    [("side_90", "px"), ("effective_pixels", "px²"), ("anisotropy", "1"), ("low_hz", "Hz"), ("entropy", "1")],
)
def test_every_number_has_its_unit(number, unit):
    assert unit_of(number, "px") == unit


def test_sentences_about_speech_distinguish_past_and_look_ahead(speech):
    result = speech[0][0]
    back, ahead = result.main.layers[-1].reach
    assert back > ahead > 0
    assert f"reaches {back:.0f} ms into the past and {ahead:.0f} ms ahead" in summary.sentences(result)[0]


def test_tokens_are_drawn_at_the_middle_of_their_frames(speech):
    layer = speech[0][0].main.layers[-1]
    tokens = speech[0][0].subject.model.network.tokens
    middle = (tokens.frames.reach / 2) * tokens.log_mel.hop_ms
    assert unit_times_ms(layer, 3).tolist() == pytest.approx([middle + number * layer.stride for number in range(3)])
