"""What an evaluation returns, and that each task has its own."""

import pytest

import vitspeech
from vitspeech import evaluation
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.decoding.search import Search
from vitspeech.evaluation import Report
from vitspeech.tasks import (
    Classification,
    JointRecognition,
    Labeling,
    MaskedPrediction,
    Recognition,
    Transcription,
    find_task,
)


def test_the_first_metric_is_the_main_metric(tmp_path):
    report = Report({"word_error_rate": 0.25, "words": 8}, "text", lambda folder: folder / "errors.txt")
    assert report.headline == ("word_error_rate", 0.25) and report.write(tmp_path) == tmp_path / "errors.txt"


@pytest.mark.parametrize(
    ("task", "way"),
    [
        (Classification, "classification"),
        (Recognition, "recognition"),
        (Transcription, "recognition"),
        (JointRecognition, "recognition"),
        (Labeling, "labeling"),
        (MaskedPrediction, "masked"),
    ],
)
def test_each_task_has_its_own_evaluation(monkeypatch, task, way):
    monkeypatch.setattr(getattr(evaluation, way), "evaluate", lambda *_, **options: options)
    search = Search(beam=3)
    options = {"search": search} if way == "recognition" else {}  # only transcripts are searched for
    assert task.evaluate(None, None, search=search, progress=False) == {"progress": False} | options


@pytest.mark.parametrize(
    ("fixture", "first", "file"),
    [
        ("finished_recognizer_run", "word_error_rate", "errors.txt"),
        ("finished_transcriber_run", "word_error_rate", "errors.txt"),
        ("finished_labeler_run", "frame_accuracy", "confusion_matrix.png"),
        ("finished_masked_run", "masked_accuracy", "masked_speech.png"),
        ("finished_symbols_run", "sequence_accuracy", "errors.txt"),
    ],
)
def test_the_evaluation_of_a_run_is_reproducible(request, tmp_path, fixture, first, file):
    model = vitspeech.load(request.getfixturevalue(fixture))
    report = find_task(model.task).evaluate(model.network, card_dataset(model, None), progress=False)
    assert report.headline == (first, model.card["metrics"][first])
    assert report.metrics == model.card["metrics"]
    assert report.write(tmp_path) == tmp_path / file and (tmp_path / file).stat().st_size > 100
