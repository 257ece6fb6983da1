"""The table and the figure of encoders."""

import csv
import json

import pytest
from sweep_runs import write_run

from vitspeech.sweep import encoder_figure
from vitspeech.sweep.encoder_figure import LINE, spaced
from vitspeech.sweep.encoders import EncoderRow, write_encoders
from vitspeech.sweep.results import read_rows, summarize

SETTINGS = {"batch": 128, "seconds": 1.0, "dtype": "fp32", "hardware": "CPU, 1 core", "commit": "c0ffee"}


@pytest.fixture
def rows(tmp_path):
    """Full attention, which can't be streamed, and a causal LSTM, which can; two seeds."""
    for variant, accuracies in (("full", (0.92, 0.94)), ("lstm", (0.90, 0.93))):
        for seed, accuracy in enumerate(accuracies):
            write_run(tmp_path / variant / f"seed-{seed}", accuracy, word_accuracy=0.95, parameters=897_806)
    full, lstm = summarize(read_rows(tmp_path, {"full": [0]}))
    cost = {
        "flops_per_second": 45.67e6,
        "training_clips_per_second": 123.4,
        "clips_per_second": 1234.5,
        "single_clips_per_second": 99.0,
        "delay_ms": None,
        "real_time_factor": None,
        "path_length": 1,
    }
    stream = cost | {"delay_ms": 85.0, "real_time_factor": 0.0321, "path_length": 25}
    return [
        EncoderRow(full, cost, 301.4, 250, "its reach is unlimited"),
        EncoderRow(lstm, stream, 200, 55.5, None),
    ]


def test_the_table_has_every_number_and_says_why_an_encoder_does_not_stream(rows, tmp_path):
    lines = write_encoders(rows, "test_accuracy", SETTINGS, tmp_path)
    full, lstm = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:4])
    assert full[:3] == ["full", "2", "93.00 ± 1.41"] and full[3] == ""
    assert full[4:] == ["897,806", "1.5", "45.7", "123", "1,234", "—", "—", "301 / 250", "1"]
    assert lstm[3].startswith("-1.50 [") and lstm[3].endswith("n = 2")
    assert lstm[9:] == ["85", "0.032", "200 / 56", "25"]
    assert lines[5:] == ["- full: not streamed, since its reach is unlimited."]
    text = (tmp_path / "encoders.md").read_text()
    assert "batches of 128 clips of 1 s in fp32" in text and "Measured on CPU, 1 core, commit c0ffee." in text


def test_the_files_of_the_table_have_the_same_numbers(rows, tmp_path):
    write_encoders(rows, "test_accuracy", SETTINGS, tmp_path)
    table = list(csv.DictReader((tmp_path / "encoders.csv").read_text().splitlines()))
    assert [row["encoder"] for row in table] == ["full", "lstm"]
    assert (table[0]["delay_ms"], table[1]["delay_ms"], table[1]["not_streamed"]) == ("", "85.0", "")
    assert float(table[1]["difference"]) == pytest.approx(-0.015) and table[0]["difference"] == ""
    record = json.loads((tmp_path / "encoders.json").read_text())
    assert record["settings"]["commit"] == "c0ffee" and record["metric"] == "test_accuracy"
    assert record["encoders"][1]["cost"]["real_time_factor"] == 0.0321
    assert (tmp_path / "encoders.png").read_bytes().startswith(b"\x89PNG")


def test_the_figure_has_a_point_for_each_encoder_with_its_delay(rows, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(encoder_figure.Figure, "savefig", lambda figure, *_, **__: drawn.append(figure.axes[0]))
    write_encoders(rows, "test_accuracy", SETTINGS, tmp_path)
    (axes,) = drawn
    assert [text.get_text() for text in axes.texts] == ["full", "lstm, 85 ms"]
    assert [text.xy for text in axes.texts] == [pytest.approx((1234.5, 93)), pytest.approx((1234.5, 91.5))]


def test_labels_are_moved_apart_where_they_would_overlap():
    heights = spaced([(0.1, 0.5), (0.2, 0.51), (0.1, 0.2), (0.15, 0.505), (0.9, 0.5)])
    assert heights == pytest.approx([0.5, 0.5 + 2 * LINE, 0.2, 0.5 + LINE, 0.5])
