"""`vitspeech evaluate`: it reproduces the number on the card."""

import csv
import json

import numpy
import pytest
from PIL import Image
from running import one_line
from tiny import TINY

import vitspeech
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.data import WordSequences
from vitspeech.tasks import Transcription
from vitspeech.training.train import TrainingCLI


def test_evaluate_gives_the_cards_number_again(command, finished_run, monkeypatch):
    card = json.loads((finished_run / "model/card.json").read_text())
    text, last = command("evaluate", finished_run).stdout.splitlines()
    assert last == f"test_accuracy {card['metrics']['test_accuracy']:.4f}"
    assert text.endswith(f"; the card says {card['metrics']['test_accuracy']:.4f}")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert command("evaluate", finished_run).stdout.splitlines() == [text]  # the number once


def test_evaluate_measures_masked_prediction_on_validation(command, finished_masked_run, monkeypatch):
    read = []
    splits = WordSequences.read
    monkeypatch.setattr(WordSequences, "read", lambda self, split: read.append(split) or splits(self, split))
    result = command("evaluate", finished_masked_run, "--split", "validation")
    assert result.returncode == 0 and {*read} == {"validation"}


def test_evaluate_refuses_test_items_of_training(command, tmp_path):
    generator = numpy.random.default_rng(0)
    for split, count in (("train", 30), ("validation", 4), ("test", 4)):
        for number in range(count):
            folder = tmp_path / "pictures" / split / ("ape", "bee")[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            pixels = generator.integers(0, 255, (16, 16, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    run, root = tmp_path / "run", tmp_path / "pictures"
    data = ["--data=vitspeech.ImageFolder", f"--data.root={root}", "--data.image=32", "--data.batch=8"]
    others = [argument for argument in TINY if not argument.startswith("--data")]
    TrainingCLI([*others, *data, f"--run={run}"]).train()
    card = json.loads((run / "model/card.json").read_text())
    assert {split: part["items"] for split, part in card["splits"].items()} == {"train": 30, "validation": 4, "test": 4}
    released = tmp_path / "checkpoints/x"
    assert command("release", run, released).returncode == 0
    table = tmp_path / "rows.csv"
    assert "warning" not in command("evaluate", released, "--data", root, "--out", table).stderr
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == 4 and all(row["name"].split("/")[:2] == ["test", row["label"]] for row in rows)
    (root / "test/ape/99.png").write_bytes((root / "test/ape/0.png").read_bytes())
    with pytest.warns(UserWarning, match="the test set is not the one of the card .items: 5 now, 4 then"):
        assert command("evaluate", released, "--data", root).returncode == 0
    # Without folders for validation and test, the hash decides, and some of the items are those of training.
    for split in ("validation", "test"):
        (root / split).rename(tmp_path / split)
    for folder in (run, run / "model", released):
        message = one_line(command("evaluate", folder, "--data", root))
        assert f"{folder}: was trained on 4 of the 4 test items (by their names and sizes), first train/" in message


def test_evaluate_takes_another_search_than_the_cards(command, finished_transcriber_run, monkeypatch):
    evaluate, searches = Transcription.evaluate, []

    def spy(network, data, search):
        searches.append((search.beam, search.ctc_weight))
        return evaluate(network, data, search=search)

    monkeypatch.setattr(Transcription, "evaluate", spy)
    result = command("evaluate", finished_transcriber_run, "--beam", 2, "--ctc-weight", 0.25)
    assert result.returncode == 0 and result.stdout.splitlines()[-1].startswith("word_error_rate ")
    assert searches == [(2, 0.25)]


def rows_of(command, run, table, *options):
    """The rows of `evaluate --out`, and the value of the main metric that it prints last."""
    result = command("evaluate", run, "--out", table, *options)
    assert result.returncode == 0, result.stderr
    path, *_, last = result.stdout.splitlines()
    assert path == str(table)
    return list(csv.DictReader(table.read_text().splitlines())), float(last.split()[1])


def test_a_classifier_has_a_row_for_each_item_that_gives_the_accuracy(command, finished_run, tmp_path):
    rows, accuracy = rows_of(command, finished_run, tmp_path / "rows.csv")
    assert list(rows[0]) == ["index", "name", "label", "prediction", "probability"]
    assert [row["index"] for row in rows] == [str(index) for index in range(len(rows))]
    assert sum(row["label"] == row["prediction"] for row in rows) / len(rows) == pytest.approx(accuracy, abs=1e-4)
    model = vitspeech.load(finished_run)
    data = card_dataset(model, None)
    probabilities = model.network(data.normalize(data.read("test").inputs)).softmax(-1).amax(-1)
    assert [float(row["probability"]) for row in rows] == pytest.approx(probabilities.tolist(), abs=1e-5)


def test_a_recognizer_has_a_row_for_each_utterance_that_gives_the_error_rate(
    command, finished_recognizer_run, tmp_path
):
    rows, rate = rows_of(command, finished_recognizer_run, tmp_path / "rows.csv")
    assert list(rows[0]) == ["test_set", "id", "reference", "hypothesis", "errors"]
    first = [row for row in rows if row["test_set"] == rows[0]["test_set"]]
    words = sum(len(row["reference"].split()) for row in first)
    assert sum(int(row["errors"]) for row in first) / words == pytest.approx(rate, abs=1e-4)
    assert len({row["id"] for row in first}) == len(first)


def test_a_labeler_has_a_row_for_each_utterance_that_gives_the_frame_accuracy(command, finished_labeler_run, tmp_path):
    rows, accuracy = rows_of(command, finished_labeler_run, tmp_path / "rows.csv")
    right, frames = (sum(int(row[name]) for row in rows) for name in ("correct_frames", "frames"))
    assert right / frames == pytest.approx(accuracy, abs=1e-4)
    assert list(rows[0]) == ["index", "id", "reference", "hypothesis", "frames", "correct_frames"]
    assert all(row["id"] and row["reference"] for row in rows)


def test_a_model_of_symbols_has_a_row_for_each_sequence_that_gives_the_accuracy(
    command, finished_symbols_run, tmp_path
):
    rows, accuracy = rows_of(command, finished_symbols_run, tmp_path / "rows.csv")
    first = [row for row in rows if row["test_set"] == rows[0]["test_set"]]
    assert sum(row["errors"] == "0" for row in first) / len(first) == pytest.approx(accuracy, abs=1e-4)
    assert all(row["reference"].split() == row["input"].split()[::-1] for row in first)


def test_evaluate_writes_the_files_of_a_run_again(command, finished_recognizer_run, tmp_path):
    folder = tmp_path / "new" / "report"
    result = command("evaluate", finished_recognizer_run, "--report", folder)
    assert result.returncode == 0 and result.stdout.splitlines()[0] == str(folder / "errors.txt")
    assert {file.name for file in folder.iterdir()} >= {"errors.txt", "errors.png", "lengths.csv"}
    for file in folder.glob("*.[tc]??"):
        assert file.read_text() == (finished_recognizer_run / file.name).read_text()
