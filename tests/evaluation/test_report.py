"""What an evaluation returns, and that each task has its own."""

import pytest

import vitspeech
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.tasks import find_task


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
