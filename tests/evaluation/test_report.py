"""What an evaluation gives, and that each network is evaluated its own way."""

from types import SimpleNamespace

import pytest

import vitspeech
from vitspeech import evaluation
from vitspeech.checkpoint.release import card_data
from vitspeech.evaluation import Report, evaluate
from vitspeech.inference.transcribe import Search
from vitspeech.models import SpeechClassifier, SpeechLabeler, SpeechRecognizer, SpeechTranscriber, ViT


def test_the_first_metric_is_what_a_model_is_judged_by(tmp_path):
    report = Report({"word_error_rate": 0.25, "words": 8}, "text", lambda folder: folder / "errors.txt")
    assert report.headline == ("word_error_rate", 0.25) and report.write(tmp_path) == tmp_path / "errors.txt"


@pytest.mark.parametrize(
    ("network", "way"),
    [
        (lambda: ViT(3), "classification"),
        (lambda: SpeechClassifier(3), "classification"),
        (lambda: SpeechRecognizer(3), "recognition"),
        (lambda: SpeechTranscriber(3), "recognition"),
        (lambda: SpeechLabeler(3), "labeling"),
    ],
)
def test_each_network_is_evaluated_its_own_way(monkeypatch, network, way):
    for name in ("classification", "recognition", "labeling"):
        said = SimpleNamespace(evaluate=lambda *_, name=name, **options: (name, options))
        monkeypatch.setattr(evaluation, name, said)
    search = Search(beam=3)
    options = {"search": search} if way == "recognition" else {}  # only what is transcribed is searched
    assert evaluate(network(), None, search=search, progress=False) == (way, {"progress": False} | options)


@pytest.mark.parametrize(
    ("fixture", "first", "file"),
    [
        ("finished_recognizer_run", "word_error_rate", "errors.txt"),
        ("finished_transcriber_run", "word_error_rate", "errors.txt"),
        ("finished_labeler_run", "frame_accuracy", "confusion_matrix.png"),
    ],
)
def test_a_runs_evaluation_comes_out_again(request, tmp_path, fixture, first, file):
    model = vitspeech.load(request.getfixturevalue(fixture))
    report = evaluate(model.network, card_data(model, None), progress=False)
    assert report.headline == (first, model.card["metrics"][first])
    assert report.metrics == model.card["metrics"]
    assert report.write(tmp_path) == tmp_path / file and (tmp_path / file).stat().st_size > 100
