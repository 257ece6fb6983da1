"""scripts/compare_encoders.py: its table and figure, its runs, other words; one real comparison of tiny networks."""

import csv
import json

import pytest
import torch
from running import one_line
from sweep_runs import write_run
from tiny import TINY_SPEECH

import compare_encoders
from compare_encoders import LINE, EncoderRow, spaced, write_encoders
from vitspeech.sweep import plan, runs
from vitspeech.sweep.results import read_rows, summarize

SETTINGS = {"batch": 128, "seconds": 1.0, "dtype": "fp32", "hardware": "CPU, 1 core", "commit": "c0ffee"}
COST = {
    "flops_per_second": 45.67e6,
    "training_clips_per_second": 123.4,
    "clips_per_second": 1234.5,
    "single_clips_per_second": 99.0,
    "delay_ms": 85.0,
    "real_time_factor": 0.0321,
    "path_length": 1,
}


@pytest.fixture
def rows(tmp_path):
    """Full attention, which can't be streamed, and a causal LSTM, which can; two seeds."""
    for variant, accuracies in (("full", (0.92, 0.94)), ("lstm", (0.90, 0.93))):
        for seed, accuracy in enumerate(accuracies):
            write_run(tmp_path / variant / f"seed-{seed}", accuracy, word_accuracy=0.95, parameters=897_806)
    full, lstm = summarize(read_rows(tmp_path, {"full": [0]}))
    cost = COST | {"delay_ms": None, "real_time_factor": None}
    stream = COST | {"path_length": 25}
    return [EncoderRow(full, cost, 301.4, 250, "its reach is unlimited"), EncoderRow(lstm, stream, 200, 55.5, None)]


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


def test_the_figure_has_a_point_for_each_encoder_with_its_delay(rows, tmp_path, figures):
    write_encoders(rows, "test_accuracy", SETTINGS, tmp_path)
    (axes,) = figures[0].axes
    assert [text.get_text() for text in axes.texts] == ["full", "lstm, 85 ms"]
    assert [text.xy for text in axes.texts] == [pytest.approx((1234.5, 93)), pytest.approx((1234.5, 91.5))]


def test_labels_are_moved_apart_where_they_would_overlap():
    heights = spaced([(0.1, 0.5), (0.2, 0.51), (0.1, 0.2), (0.15, 0.505), (0.9, 0.5)])
    assert heights == pytest.approx([0.5, 0.5 + 2 * LINE, 0.2, 0.5 + LINE, 0.5])


@pytest.fixture
def fake(monkeypatch):
    """Runs that are finished at once, and costs; the run of `lstm` with seed 1 fails."""
    trained = []

    def train(arguments, log):
        trained.append(arguments)
        if log.parent.name == "lstm" and log.stem == "seed-1":
            return "the disk is full"
        write_run(log.with_suffix(""), 0.9)
        return None

    def measured(summaries, folder, settings, *_):
        settings["seconds"] = 1.0
        return [EncoderRow(summary, COST, 300, 200, None) for summary in summaries]

    monkeypatch.setattr(plan, "resolve", lambda options, name: {"seed_everything": 0})
    monkeypatch.setattr(runs, "train_in_process", train)
    monkeypatch.setattr(compare_encoders, "measure_all", measured)
    return trained


def test_the_seven_encoders_are_trained_with_every_seed_on_the_given_words(script, tmp_path, fake):
    result = script("compare_encoders", "-o", tmp_path, "--words", "yes", "no", "--seeds", 0, 1, "--data.root", "x")
    assert len(fake) == 14 and result.returncode == 1
    assert fake[0][:3] == ["--config=encoders/full", "--data.root=x", '--data.init_args.words=["yes", "no"]']
    assert result.stderr.splitlines()[-1] == "  lstm, seed 1: the disk is full"
    lines = [line for line in result.stdout.splitlines() if line.startswith("| ")]
    names = [line.split()[1] for line in lines[-7:]]
    assert names == ["full", "truncated", "causal", "bilstm", "lstm", "cnn", "window-mlp"]
    assert "| lstm | 1 | 90.00 | +0.00, n = 1 |" in lines[-3]
    assert result.stdout.splitlines()[-1] == ", ".join(f"{tmp_path}/encoders.{e}" for e in ("md", "csv", "json", "png"))


def test_other_variants_in_the_folder_are_not_compared(script, tmp_path, fake):
    write_run(tmp_path / "another/seed-0", 0.9)
    result = script("compare_encoders", "-o", tmp_path, "--configs", "encoders/cnn", "--seeds", 0)
    assert result.returncode == 0 and "another" not in (tmp_path / "encoders.md").read_text()


def test_a_dry_run_lists_the_runs(script, tmp_path, fake):
    result = script("compare_encoders", "-o", tmp_path / "new", "--dry-run", "--seeds", 3)
    assert len(result.stdout.splitlines()) == 7 and not fake and not (tmp_path / "new").exists()


def test_a_config_of_utterances_is_one_line_before_training(script, tmp_path, fake):
    result = script("compare_encoders", "-o", tmp_path / "new", "--configs", "encoders/full", "windows/mlp-9")
    assert "windows/mlp-9: trains on the utterances of WordSequences" in one_line(result)
    assert not fake and not (tmp_path / "new").exists()


@pytest.mark.slow
def test_tiny_encoders_are_measured(script, tmp_path, finished_speech_run):
    torch.manual_seed(0)
    (tmp_path / "truncated").mkdir()
    (tmp_path / "truncated/seed-0").symlink_to(finished_speech_run)
    options = [option for option in TINY_SPEECH if not option.startswith("--config")]
    line = ["--configs", "spoken_words/truncated", "--seeds", 0, "--batch", 2, "--repeats", 1, "--clips", 4]
    result = script("compare_encoders", "-o", tmp_path, *line, *options)
    assert result.returncode == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.startswith("| truncated | 1 |") and "/ " in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert float(cells[4]) > 0 and int(cells[7]) > 85 and "no path" not in cells[8]
