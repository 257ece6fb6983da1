"""Evaluation of symbols: what counts as right, by test set and by length, and what a run's folder gets."""

import csv

import pytest
import torch

from vitspeech.data import SymbolTasks
from vitspeech.decoding.search import Search
from vitspeech.evaluation import recognition, sequences
from vitspeech.metrics.intervals import wilson_interval
from vitspeech.models import Seq2Seq


@pytest.fixture
def report(monkeypatch):
    """Of a network that is right up to four symbols, and leaves out the last one of longer sequences."""
    data = SymbolTasks("reverse", symbols=10, shortest=3, longest=5, longer=[6])
    monkeypatch.setattr(
        sequences,
        "decode",
        lambda network, data, items, *_: [tuple(row if len(row) < 5 else row[:-1]) for row in items.outputs],
    )
    torch.manual_seed(0)
    network = Seq2Seq(10, 10, 8, {"depth": 1, "heads": 2}, decoder={"depth": 2, "heads": 2}).eval()
    return recognition.evaluate(network, data, progress=False), data


def test_a_sequence_is_right_or_wrong_and_its_symbols_count_one_by_one(report):
    metrics, test = report[0].metrics, report[1].read("test")
    right, symbols = sum(len(row) < 5 for row in test.outputs), sum(map(len, test.outputs))
    assert report[0].headline == ("sequence_accuracy", right / 1000)
    assert metrics["symbol_error_rate"] == pytest.approx((1000 - right) / symbols)
    assert metrics["interval_95"] == pytest.approx(wilson_interval(right / 1000, 1000), abs=1e-4)
    assert (metrics["sequences"], metrics["symbols"], metrics["test_set"]) == (1000, symbols, "test")
    assert metrics["also"]["length-6"] | {"interval_95": 0} == {
        "sequence_accuracy": 0.0,
        "interval_95": 0,
        "symbol_error_rate": pytest.approx(1 / 6),
        "sequences": 500,
        "symbols": 3000,
    }
    assert metrics["search"] == {"beam": 1, "length_penalty": 0.6, "ctc_weight": 0.7}
    assert "length-6: sequence_accuracy 0.0000 (0.0000 to 0.0076) of 500" in report[0].text


def test_a_runs_folder_gets_errors_accuracy_by_length_and_a_picture(report, tmp_path):
    assert report[0].write(tmp_path) == tmp_path / "errors.txt"
    lines = (tmp_path / "errors.txt").read_text().splitlines()
    first = lines.index(next(line for line in lines if line.startswith("IN:")))
    given, true, output = (line.split()[1:] for line in lines[first : first + 3])
    assert true == given[::-1] and output == true[:-1]
    rows = list(csv.DictReader((tmp_path / "lengths.csv").read_text().splitlines()))
    assert [(row["test_set"], row["input_symbols"], float(row["sequence_accuracy"])) for row in rows] == [
        ("test", "3", 1),
        ("test", "4", 1),
        ("test", "5", 0),
        ("length-6", "6", 0),
    ]
    assert sum(int(row["sequences"]) for row in rows) == 1500 and float(rows[-1]["symbol_error_rate"]) == 0.1667
    assert (tmp_path / "cross_attention.png").stat().st_size > 5000


@torch.no_grad()
def test_outputs_are_decoded_in_order():
    data = SymbolTasks("copy", longest=6)
    data.evaluation_batch, items = 7, data.read("test")
    items.inputs, items.outputs = items.inputs[:20], items.outputs[:20]
    torch.manual_seed(0)
    network = Seq2Seq(10, 10, 8, {"depth": 1, "heads": 2}).double().eval()
    network.head.weight.mul_(5)
    together = sequences.decode(network, data, items, Search(beam=1), False)
    data.evaluation_batch = 1
    assert together == sequences.decode(network, data, items, Search(beam=1), False) and len(set(together)) > 5
