"""The README.md of a released model: front matter that the hub reads, text that follows from card and configuration."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import huggingface_hub
import pytest
import torch

import vitspeech
from vitspeech.checkpoint.release import front_matter, readme
from vitspeech.commands import transcribe
from vitspeech.commands.release import main
from vitspeech.errors import InputError

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
RELEASED = sorted(card.parent for card in CHECKPOINTS.glob("*/card.json"))


@pytest.mark.parametrize("folder", RELEASED, ids=lambda folder: folder.name)
def test_the_readme_of_a_released_model_is_up_to_date(folder):
    """If not: `vitspeech release checkpoints/NAME`."""
    assert (folder / "README.md").read_text() == readme(vitspeech.load(folder), license="apache-2.0")


@pytest.mark.parametrize(
    "name, pipeline, dataset, metrics",
    [
        ("vit-cifar10", "image-classification", "uoft-cs/cifar10", {"accuracy": 0.911}),
        ("speech-commands-truncated", "audio-classification", "google/speech_commands", {"accuracy": 0.9443}),
        ("keywords-12", "audio-classification", "google/speech_commands", {"accuracy": 0.9220}),
        ("spoken-words-ctc", "automatic-speech-recognition", "google/speech_commands", {"wer": 0.0407}),
    ],
)
def test_the_hub_reads_task_license_data_and_results(name, pipeline, dataset, metrics):
    data = huggingface_hub.ModelCard.load(CHECKPOINTS / name / "README.md").data
    assert (data.library_name, data.pipeline_tag, data.license) == ("vitspeech", pipeline, "apache-2.0")
    assert data.datasets == [dataset]
    first = data.eval_results[0]
    assert {first.metric_type: first.metric_value} == metrics
    assert (first.task_type, first.dataset_type, first.dataset_split) == (pipeline, dataset, "test")


def test_a_release_writes_a_readme_without_the_hub(finished_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    folder = tmp_path / "shapes"
    main([str(finished_run), str(folder), "--license", "mit"])
    front = front_matter((folder / "README.md").read_text())
    assert front["license"] == "mit" and "datasets" not in front
    assert front["model-index"][0]["results"][0]["dataset"] == {"name": "Shapes", "type": "shapes", "split": "test"}
    with pytest.raises(InputError, match=r"pip install 'vitspeech\[hub\]'"):
        main([str(folder), "--push", "me/shapes"])
    main([str(finished_run), str(folder)])  # again: the license stays
    assert front_matter((folder / "README.md").read_text()) == front


def test_a_readme_of_somebody_else_is_not_replaced(tmp_path):
    folder = shutil.copytree(CHECKPOINTS / "vit-cifar10", tmp_path / "vit")
    (folder / "README.md").write_text("# Mine\n")
    before = (folder / "card.json").read_bytes()
    with pytest.raises(InputError, match=r"README.md: not written by vitspeech release"):
        main([str(folder)])
    assert (folder / "README.md").read_text() == "# Mine\n" and (folder / "card.json").read_bytes() == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["RUN"], "not the folder of a released model"),
        (["RELEASED", "--push", "mine"], "--push mine: not of the form user/name"),
        (["hf-hub:a/b", "new"], "hf-hub:a/b: not the folder of a released model"),
    ],
)
def test_what_makes_no_sense_is_refused_and_writes_nothing(tmp_path, arguments, message):
    folder = shutil.copytree(CHECKPOINTS / "vit-cifar10", tmp_path / "vit")
    (tmp_path / "run").mkdir()
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    places = {"RUN": str(tmp_path / "run"), "RELEASED": str(folder)}
    with pytest.raises(InputError, match=message):
        main([places.get(argument, argument) for argument in arguments])
    assert before == {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_command_on_the_page_of_a_model_of_symbols_runs(finished_symbols_run, capsys):
    command = re.search(r"vitspeech transcribe (hf-hub:\S+) (.*)", readme(vitspeech.load(finished_symbols_run)))
    transcribe.main([str(finished_symbols_run), *shlex.split(command[2].replace("…", "0 1"))])
    assert capsys.readouterr().out.startswith("0 1 -> ")


@pytest.mark.parametrize("delay_ms", [245.0, None])
def test_the_code_on_the_page_of_a_labeler_runs(finished_labeler_run, words, monkeypatch, capsys, delay_ms):
    model = vitspeech.load(finished_labeler_run)
    model.card = model.card | {"delay_ms": delay_ms}
    text = readme(model)
    assert "| F1 of words within 50 ms at both ends | " in text and "vitspeech predict" not in text
    assert ("vitspeech stream hf-hub:USER/" in text) == (delay_ms is not None)
    assert "Other words are labeled as one of these, or as none." in text
    monkeypatch.chdir(words.parent)
    monkeypatch.setattr(vitspeech, "load", lambda name: model)
    code = text.partition("```python\n")[2].partition("```")[0].replace("talk.wav", words.name)
    scope = {}
    exec(code, scope)
    assert scope["samples"].dtype == torch.int16 and ("logits" in scope) == (delay_ms is None)
