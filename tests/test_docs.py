"""Tables, links, files and commands in README.md and docs/; released models are as accurate as their cards say."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny import ROOT

import tables
import vitspeech
from api_pages import api
from tables import TABLES, pages, updated
from vitspeech import commands
from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.checkpoint.leakage import split_checksums
from vitspeech.checkpoint.models_table import write_table
from vitspeech.commands import VERBS
from vitspeech.data.utterances.word_sequences import manifest_file
from vitspeech.decoding.search import Search
from vitspeech.evaluation import labeling
from vitspeech.evaluation.recognition import transcripts
from vitspeech.files import sha256
from vitspeech.metrics.word_errors import score
from vitspeech.samples import copy_samples

CARDS = sorted((ROOT / "checkpoints").glob("*/card.json"))
DOCUMENTS = sorted([*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"])


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.parent.name)
def test_a_released_model_loads_and_is_small(path):
    model = vitspeech.load(path.parent)
    assert sum(parameter.numel() for parameter in model.network.parameters()) == model.card["parameters"]
    assert (path.parent / "model.safetensors").stat().st_size <= 10e6


def is_transcriber(path):
    return "word_error_rate" in json.loads(path.read_text())["metrics"]


def is_labeler(path):
    return "word_f1" in json.loads(path.read_text())["metrics"]


CLASSIFIERS = [path for path in CARDS if not is_transcriber(path) and not is_labeler(path)]
TRANSCRIBERS = [path for path in CARDS if is_transcriber(path) and path.parent.name != "speech-encoder"]  # of own lists
LABELERS = [path for path in CARDS if is_labeler(path)]


@pytest.mark.filterwarnings("ignore:.* likely to have the word twice")
@pytest.mark.filterwarnings("ignore:.* of a word longer than a clip")
@pytest.mark.data
@pytest.mark.filterwarnings("ignore:.* recordings are clipped")  # so are 29 of the real test clips
@pytest.mark.parametrize("path", CLASSIFIERS, ids=lambda path: path.parent.name)
def test_a_released_model_is_as_accurate_as_its_card_says(path):
    """On 1,000 items spread over the test set: within four standard errors of the card's number."""
    model = vitspeech.load(path.parent)
    data = card_dataset(model, None)
    test = data.read("test")
    if "splits" in model.card:
        assert split_checksums(data.item_names())["test"] == model.card["splits"]["test"]
    places = torch.linspace(0, len(test) - 1, 1000).long()
    with torch.inference_mode():
        batches = (model.network(data.normalize(test.inputs[part])) for part in places.split(100))  # fit into a cache
        predictions = torch.cat([logits.argmax(1) for logits in batches])
    accuracy = (predictions == test.labels[places]).float().mean().item()
    card = model.card["metrics"]["test_accuracy"]
    assert abs(accuracy - card) < 4 * (card * (1 - card) / 1000) ** 0.5


def test_the_streaming_recognizer_has_a_word_error_rate_of_at_most_5_percent():
    card = json.loads((ROOT / "checkpoints/spoken-words-ctc/card.json").read_text())
    assert card["metrics"]["word_error_rate"] <= 0.05 and card["metrics"]["words"] > 4000
    assert card["metrics"]["manifest_sha256"] == sha256(manifest_file("speech-commands-1-7"))


@pytest.mark.data
@pytest.mark.parametrize("path", TRANSCRIBERS, ids=lambda path: path.parent.name)
def test_a_released_transcriber_has_the_error_rate_on_its_card(path):
    """On every fifth utterance of the test set: within four standard errors of the card's number."""
    model = vitspeech.load(path.parent)
    data, card = card_dataset(model, None), model.card["metrics"]
    if isinstance(data, vitspeech.LibriSpeech):
        if not Path(os.environ["VITSPEECH_DATA"], "LibriSpeech").is_dir():
            pytest.skip("no LibriSpeech in VITSPEECH_DATA")
        spoken = data.splits["test"] = data.splits["test"][::5]
        test = data.read("test")
    else:
        test = data.read("test")
        spoken = test.utterances = test.utterances[::5]
    hypotheses = transcripts(model.network, data, test, Search(**card["search"]), progress=False)
    errors = score([" ".join(utterance.words) for utterance in spoken], hypotheses)
    std = (card["interval_95"][1] - card["interval_95"][0]) / (2 * 1.96) * 5**0.5
    assert abs(errors.words.rate - card["word_error_rate"]) < 4 * std


@pytest.mark.data
@pytest.mark.parametrize("path", LABELERS, ids=lambda path: path.parent.name)
def test_a_released_labeler_is_as_accurate_as_its_card_says(path, monkeypatch):
    """On every fifth utterance of the test set: within four standard errors of the card's number."""
    model = vitspeech.load(path.parent)
    data, card = card_dataset(model, None), model.card["metrics"]
    test = data.read("test")
    test.utterances = test.utterances[::5]
    monkeypatch.setattr(data, "read", lambda split: test)
    values = labeling.evaluate(model.network, data, progress=False).metrics
    std = (card["interval_95"][1] - card["interval_95"][0]) / (2 * 1.96) * 5**0.5
    assert abs(values["frame_accuracy"] - card["frame_accuracy"]) < 4 * std
    assert abs(values["word_f1"] - card["word_f1"]) < 0.06  # 806 words


def values_of(part, name):
    """Yield the values of a key anywhere in a report."""
    if isinstance(part, dict):
        yield from ([part[name]] if name in part else [])
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from values_of(value, name)


@pytest.mark.parametrize("name", ["attention", "vit", "layer", "speech"])
def test_every_benchmark_was_run_to_its_end_at_the_commit_that_its_history_names(name):
    report = json.loads((ROOT / f"docs/benchmark/{name}.json").read_text())
    assert report["complete"] and report["settings"]["repeats"] >= 7
    repeats = list(values_of(report, "repeats"))
    assert len(repeats) > 1 and min(repeats) >= 7
    assert f"commit {report['commit']}" in (ROOT / "docs/history/benchmarks.md").read_text()


def test_the_tables_are_up_to_date():
    stale = [path for path in pages() if updated(path.read_text()) != path.read_text()]
    assert not stale, "run: python scripts/tables.py"


def test_every_table_is_used():
    names = {name for path in pages() for name in re.findall("<!-- table: ([^ ]+) -->", path.read_text())}
    assert names == set(TABLES)


def test_a_stale_table_is_reported_and_not_changed(tmp_path, monkeypatch, capsys):
    page = tmp_path / "README.md"
    page.write_text("<!-- table: probe-seeds -->\nold\n<!-- /table -->\n")
    monkeypatch.setattr(tables, "pages", lambda: [page])
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setitem(TABLES, "probe-seeds", lambda: ["new"])
    with pytest.raises(SystemExit):
        tables.main(["--check"])
    assert "README.md: tables are out of date" in capsys.readouterr().out
    assert "old" in page.read_text()
    tables.main([])
    assert page.read_text() == "<!-- table: probe-seeds -->\nnew\n<!-- /table -->\n"


def test_the_api_pages_have_signatures_as_in_the_source_and_docstrings_as_markdown():
    text = "\n".join(api("vitspeech.decoding.search"))
    assert "```python\nSearch(\n    beam: int | None = None,\n" in text
    assert "**Args**\n\n- `beam`: Number of hypotheses" in text
    assert "\n- `with_default_beam(labels: Sequence[str], *, ctc: bool) -> " in text
    assert "\n- `label -> str`: " in "\n".join(api("vitspeech.inference.predict: Prediction"))


def test_release_writes_the_same_table_of_models(tmp_path):
    shutil.copytree(
        ROOT / "checkpoints", tmp_path / "checkpoints", ignore=shutil.ignore_patterns("*.png", "*.safetensors")
    )
    assert write_table(tmp_path / "checkpoints").read_text() == (ROOT / "checkpoints/README.md").read_text()


def test_the_readme_has_at_most_120_lines_and_every_model_has_a_row():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    text = (ROOT / "docs/models.md").read_text()
    assert all(f"| [`{path.parent.name}`]" in text for path in CARDS)


def files_of(text):
    """The files of this repository that a text names."""
    folders = "vitspeech|scripts|configs|checkpoints|docs|tests"
    return set(re.findall(rf"\b(?:{folders})/[\w/.-]+\.(?:py|sh|yaml|md|png|txt)\b", text))


def test_every_file_that_a_page_names_exists():
    names = {path.relative_to(ROOT).as_posix(): files_of(path.read_text()) for path in DOCUMENTS}
    assert len(set().union(*names.values())) > 20
    missing = {(page, name) for page in names for name in names[page] if not (ROOT / name).exists()}
    assert missing <= {("CHANGELOG.md", "vitspeech/attention/linear.py")}  # the changelog says that it was removed


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file(path):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    assert not [link for link in links if "://" not in link and not (path.parent / link).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_config_and_command_that_a_page_names_exists(path):
    text = path.read_text()
    for name in re.findall(r"(?:--config|extends:|vitspeech configs) ([a-z_0-9]+/[a-z0-9-]+)\b(?![./])", text):
        assert (ROOT / f"configs/{name}.yaml").exists(), name
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    assert set(re.findall(r"^vitspeech ([a-z][a-z-]+)", blocks, flags=re.MULTILINE)) <= set(VERBS)


PYTHON = {"guides/python.md": "mean, std", "attention-weights.md": "timm", "quickstart.md": "spotter"}


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs_as_it_is(page, tmp_path, monkeypatch):
    (tmp_path / "checkpoints").symlink_to(ROOT / "checkpoints")
    monkeypatch.chdir(tmp_path)
    copy_samples(Path("samples"))
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL))
    assert PYTHON[page] in code
    exec(code, {})


OTHERS = {  # of other commands, or explained without an option of its own
    "train": {"--nproc-per-node", "--no-python", "--trainer"},
    "pack": {"--config"},
    "language-model": {"--language-model"},
    "probe": {"--data"},
    "configs": {"--config"},
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_options_in_the_command_reference_are_those_of_the_command(verb, capsys):
    section = re.search(
        rf"^## {verb}\n(.*?)(?=^## |\Z)", (ROOT / "docs/commands.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert section
    with pytest.raises(SystemExit):
        commands.command(verb)(["--help"])
    text = capsys.readouterr().out
    documented, offered = (set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-_]*", page)) for page in (section[1], text))
    assert documented <= offered
    elsewhere = {"--help", "--help-all", "--output", "--trust"}  # described for all commands, or the long name of -o
    assert offered - documented - elsewhere <= OTHERS.get(verb, set())


def guide_files(text):
    """The files that a guide tells its reader to save, by name."""
    pattern = r"(?:[Ss]ave (?:this|it)|and this)[^`]*?as\s+`([\w.]+)`(?:(?!```).)*?```\w+\n(.*?)```"
    return dict(re.findall(pattern, text, re.DOTALL))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data", "network", "score"])
def test_a_guide_can_be_followed_to_its_end(name, tmp_path):
    text = (ROOT / f"docs/guides/{name}.md").read_text()
    files = guide_files(text)
    assert {file.rpartition(".")[2] for file in files} == {"py", "yaml"}
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for file, content in files.items():
        (tmp_path / file).write_text(content)
        if file.startswith("make_"):
            subprocess.run([sys.executable, file], cwd=tmp_path, env=environment, check=True)
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            command = line.partition(" #")[0].replace("ROOT", ".").split()
            subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, env=environment, check=True)
