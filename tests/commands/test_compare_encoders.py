"""`vitspeech compare-encoders`: its runs, other words, its table; one real comparison of tiny networks."""

from types import SimpleNamespace

import pytest
import torch
import yaml
from running import one_line
from sweep_runs import write_run
from tiny import TINY_SPEECH

from vitspeech.checkpoint import card_dataset as card_data
from vitspeech.commands import compare_encoders
from vitspeech.receptive import sample
from vitspeech.sweep import check, runs
from vitspeech.sweep.encoders import EncoderRow

COST = {
    "flops_per_second": 45e6,
    "training_clips_per_second": 100.0,
    "clips_per_second": 1000.0,
    "single_clips_per_second": 100.0,
    "delay_ms": 85.0,
    "real_time_factor": 0.03,
    "path_length": 1,
}


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

    monkeypatch.setattr(check, "resolve", lambda options, name: {"seed_everything": 0})
    monkeypatch.setattr(runs, "train_in_process", train)
    monkeypatch.setattr(compare_encoders, "measure_all", measured)
    return trained


def test_the_seven_encoders_are_trained_with_three_seeds_on_the_given_words(command, tmp_path, fake):
    result = command("compare-encoders", "-o", tmp_path, "--words", "yes", "no", "--data.root", "x")
    assert len(fake) == 21 and result.returncode == 1
    assert fake[0][:3] == ["--config=encoders/full", "--data.root=x", '--data.init_args.words=["yes", "no"]']
    assert result.stderr.splitlines()[-1] == "  lstm, seed 1: the disk is full"
    lines = [line for line in result.stdout.splitlines() if line.startswith("| ")]
    names = [line.split()[1] for line in lines[-7:]]
    assert names == ["full", "truncated", "causal", "bilstm", "lstm", "cnn", "window-mlp"]
    assert "| lstm | 2 | 90.00 ± 0.00 | +0.00 [+0.00, +0.00], n = 2 |" in lines[-3]
    assert result.stdout.splitlines()[-1] == ", ".join(f"{tmp_path}/encoders.{e}" for e in ("md", "csv", "json", "png"))


def test_other_variants_in_the_folder_are_not_compared(command, tmp_path, fake):
    write_run(tmp_path / "another/seed-0", 0.9)
    result = command("compare-encoders", "-o", tmp_path, "--configs", "encoders/cnn", "--seeds", 0)
    assert result.returncode == 0 and "another" not in (tmp_path / "encoders.md").read_text()


def test_a_dry_run_lists_the_runs(command, tmp_path, fake):
    result = command("compare-encoders", "-o", tmp_path / "new", "--dry-run", "--seeds", 3)
    assert len(result.stdout.splitlines()) == 7 and not fake and not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--batch", 0], "batch=0 is below 1"),
        (["--seeds", 1, 1], "--seeds 1 1: name different seeds"),
        (["--configs", "encoders/ful"], "did you mean encoders/full"),
    ],
)
def test_bad_input_is_one_line(command, tmp_path, line, message):
    assert message in one_line(command("compare-encoders", "-o", tmp_path / "new", *line))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "arguments, root", [({"root": "a"}, "a"), ({"root": "a", "storage": "files"}, "a"), ({"storage": "pack"}, "pack")]
)
def test_the_clips_are_those_of_the_runs_pack(tmp_path, monkeypatch, arguments, root):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"data": {"init_args": arguments}}))
    raw = SimpleNamespace(raw=torch.ones(4, 16))
    monkeypatch.setattr(sample, "validation_sample", lambda data, count: raw)
    monkeypatch.setattr(card_data, "card_data", lambda model, root: SimpleNamespace(normalize=lambda raw: (root, raw)))
    assert compare_encoders.validation_clips(None, tmp_path, 4) == (root, raw.raw)


@pytest.mark.slow
def test_tiny_encoders_are_measured(command, tmp_path, finished_speech_run):
    torch.manual_seed(0)
    (tmp_path / "truncated").mkdir()
    (tmp_path / "truncated/seed-0").symlink_to(finished_speech_run)
    options = [option for option in TINY_SPEECH if not option.startswith("--config")]
    line = ["--configs", "spoken_words/truncated", "--seeds", 0, "--batch", 2, "--repeats", 1, "--clips", 4]
    result = command("compare-encoders", "-o", tmp_path, *line, *options)
    assert result.returncode == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if line.startswith("| truncated | 1 |") and "/ " in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert float(cells[4]) > 0 and int(cells[7]) > 85 and "no path" not in cells[8]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clips", "1"], "--clips 1: an interval needs at least 2"),
        (
            ["--configs", "encoders/full", "windows/mlp-9"],
            "windows/mlp-9: trains on the utterances of WordSequences; give configs of classifiers of clips",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_before_training(command, tmp_path, fake, arguments, message):
    assert message in one_line(command("compare-encoders", "-o", tmp_path / "new", *arguments))
    assert fake == [] and not (tmp_path / "new").exists()
