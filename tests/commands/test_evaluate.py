"""`vitspeech evaluate`: it reproduces the number on the card."""

import json

import pytest
from running import one_line

import vitspeech


def test_evaluate_gives_the_cards_number_again_in_its_last_line(command, finished_run):
    card = vitspeech.load(finished_run).card
    result = command("evaluate", finished_run)
    assert result.stdout.splitlines()[-1] == f"test_accuracy {card['metrics']['test_accuracy']:.4f}"


@pytest.mark.parametrize(
    ("fixture", "name"),
    [
        ("finished_recognizer_run", "word_error_rate"),
        ("finished_transcriber_run", "word_error_rate"),
        ("finished_labeler_run", "frame_accuracy"),
    ],
)
def test_evaluate_gives_the_cards_number_again_for_every_task(request, command, fixture, name):
    run = request.getfixturevalue(fixture)
    card = json.loads((run / "model/card.json").read_text())
    text, last = command("evaluate", run).stdout.splitlines()
    assert last == f"{name} {card['metrics'][name]:.4f}"
    assert text.endswith(f"; the card says {card['metrics'][name]:.4f}")


def test_evaluate_takes_another_search_than_the_cards(command, finished_recognizer_run):
    result = command("evaluate", finished_recognizer_run, "--beam", 1)
    assert result.returncode == 0 and result.stdout.splitlines()[-1].startswith("word_error_rate ")
    assert "beam=0" in one_line(command("evaluate", finished_recognizer_run, "--beam", 0))
