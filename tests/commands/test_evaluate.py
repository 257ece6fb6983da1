"""`vitspeech evaluate`: it reproduces the number on the card."""

import json

import numpy
import pytest
from PIL import Image
from running import one_line
from tiny import TINY

import vitspeech
from vitspeech.training.cli import TrainingCLI


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
    assert "warning" not in command("evaluate", released, "--data", root).stderr
    (root / "test/ape/99.png").write_bytes((root / "test/ape/0.png").read_bytes())
    with pytest.warns(UserWarning, match="the test set is not the one of the card .items: 5 now, 4 then"):
        assert command("evaluate", released, "--data", root).returncode == 0
    # Without folders for validation and test, the hash decides, and some of the items are those of training.
    for split in ("validation", "test"):
        (root / split).rename(tmp_path / split)
    for folder in (run, run / "model", released):
        message = one_line(command("evaluate", folder, "--data", root))
        assert f"{folder}: was trained on 2 of the 2 test items (by their names and sizes), first train/" in message


def test_evaluate_takes_another_search_than_the_cards(command, finished_recognizer_run):
    result = command("evaluate", finished_recognizer_run, "--beam", 1)
    assert result.returncode == 0 and result.stdout.splitlines()[-1].startswith("word_error_rate ")
    assert "beam=0" in one_line(command("evaluate", finished_recognizer_run, "--beam", 0))
