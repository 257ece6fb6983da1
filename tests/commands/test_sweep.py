"""`vitspeech sweep`: a sweep from the command line, broken off and continued; failures; the table made anew."""

import json

import pytest
from sweep_runs import write_run
from tiny import TINY

from vitspeech.sweep import runs

SMALL = [option for option in TINY if not option.startswith("--config")]


@pytest.fixture
def fake(monkeypatch):
    """Runs that are finished at once; the one with seed 7 fails."""

    def train(arguments, log):
        folder = log.with_suffix("")
        if folder.name == "seed-7":
            return "the disk is full"
        write_run(folder, 0.9)
        return None

    monkeypatch.setattr(runs, "train_in_process", train)


def test_a_dry_run_lists_every_run_and_trains_nothing(command, tmp_path):
    folder = tmp_path / "out"
    line = ["shapes/vit", "--vary", "model.network.encoder.depth=1,2", "--seeds", 0, 1, "-o", folder, "--dry-run"]
    result = command("sweep", *line, "--trainer.max_epochs", 3)
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and len(lines) == 4 and not folder.exists()
    assert lines[1].startswith("run 2 of 4: vit,depth=2, seed 0, not started: vitspeech train --config=shapes/vit ")
    assert lines[1].endswith(
        f"--trainer.max_epochs=3 --model.network.encoder.depth=2 --seed_everything=0 --run={folder}/vit,depth=2/seed-0"
    )


def test_a_sweep_prints_its_table_and_says_which_runs_failed(command, tmp_path, fake):
    folder = tmp_path / "out"
    result = command("sweep", "shapes/vit", "shapes/cnn", "--seeds", 0, 7, "-o", folder)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "vitspeech sweep: 2 of 4 runs failed:",
        "  vit, seed 7: the disk is full",
        "  cnn, seed 7: the disk is full",
    ]
    assert "| cnn | 1 | 90.00 | +0.00, n = 1 | 1,000 | 1.5 |" in result.stdout
    assert result.stdout.splitlines()[-1] == ", ".join(
        str(folder / name) for name in ("table.md", "sweep.csv", "sweep.json", "sweep.png")
    )


def test_the_table_of_a_folder_is_written_anew(command, tmp_path):
    write_run(tmp_path / "full/seed-0", 0.9)
    result = command("sweep", "--table", tmp_path)
    assert result.returncode == 0 and "| full | 1 | 90.00 | 1,000 | 1.5 |" in result.stdout
    assert json.loads((tmp_path / "sweep.json").read_text())["runs"][0]["seed"] == 0


@pytest.mark.parametrize("line", [[], ["shapes/vit"], ["-o", "out"]])
def test_a_sweep_needs_a_config_and_a_folder(command, line):
    result = command("sweep", *line)
    assert result.returncode == 2 and "name at least one CONFIG" in result.stderr


@pytest.mark.slow
def test_a_real_sweep_trains_in_processes_of_its_own_and_reports_one_that_cannot_start(command, tmp_path):
    folder = tmp_path / "out"
    line = ["shapes/vit", "--vary", "data.init_args.batch=50,500", "-o", folder, *SMALL]
    line = [option for option in line if not str(option).startswith("--data.init_args.batch")]
    result = command("sweep", *line)
    assert result.returncode == 1 and "vit,batch=500, seed 0: " in result.stderr
    assert (folder / "vit,batch=50/seed-0/model/card.json").exists() and not (folder / "vit,batch=500/seed-0").exists()
    assert "training" in (folder / "vit,batch=50/seed-0.log").read_text()
    again = command("sweep", *line)
    assert "vit,batch=50, seed 0: is finished already" in again.stdout and again.returncode == 1
