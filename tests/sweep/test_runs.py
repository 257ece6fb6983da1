"""Training the runs of a sweep: what is skipped, resumed, refused, reported; interrupted and failing runs."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sweep_runs import write_run
from tiny import TINY

from vitspeech.errors import InputError
from vitspeech.sweep import runs
from vitspeech.sweep.plan import check_plan, make_plan
from vitspeech.sweep.runs import sweep, train_all, train_in_process, where_to_run
from vitspeech.training.run_folder import resume

VIT, CNN = "shapes/vit", "shapes/cnn"
SMALL = [option for option in TINY if not option.startswith("--config")]  # of `finished_run`


@pytest.fixture
def trained(monkeypatch):
    """The command lines of runs, which are trained at once; seed 7 fails, and seed 8 ends without a model."""
    trained = []

    def train(arguments, log):
        trained.append(arguments)
        folder = Path(arguments[-1].partition("=")[2] if "--run=" in arguments[-1] else arguments[0].partition("=")[2])
        assert log == folder.with_name(f"{folder.name}.log")
        if folder.name in ("seed-7", "seed-8"):
            return "train_loss is not finite" if folder.name == "seed-7" else None
        write_run(folder, 0.5 + 0.01 * len(trained))
        return None

    monkeypatch.setattr(runs, "train_in_process", train)
    return trained


def test_finished_runs_are_skipped_and_unfinished_ones_resumed(tmp_path, trained):
    write_run(tmp_path / "vit/seed-0", 0.9)
    write_run(tmp_path / "cnn/seed-0")
    overrides = ["--data.root=elsewhere", "--trainer.max_epochs=3"]
    plan, notes = make_plan([VIT, CNN], [0, 1], tmp_path, overrides=overrides, trust=["mine"]), []
    assert train_all(plan, notes.append) == []
    assert trained == [
        [f"--resume={tmp_path}/cnn/seed-0", "--data.root=elsewhere", "--trust=mine"],
        [*plan.options(plan.runs[2]), f"--run={tmp_path}/vit/seed-1"],
        [*plan.options(plan.runs[3]), f"--run={tmp_path}/cnn/seed-1"],
    ]
    assert notes[0] == "run 1 of 4: vit, seed 0: is finished already, accuracy 90.00 %"
    assert notes[1] == "run 2 of 4: cnn, seed 0 (elapsed 0:00:00, left 0:04:30): resuming"  # 1.5 min each
    assert notes[2] == "run 2 of 4: cnn, seed 0: accuracy 51.00 %, 1.5 min"
    train_all(plan, notes.append)
    assert len(trained) == 3


def test_a_sweep_goes_on_when_a_run_fails(tmp_path, trained):
    plan, notes = make_plan([VIT], [7, 8, 1], tmp_path), []
    failures = train_all(plan, notes.append)
    assert [(str(run), reason) for run, reason in failures] == [
        ("vit, seed 7", "train_loss is not finite"),
        ("vit, seed 8", "it ended without a model"),
    ]
    assert "run 1 of 3: vit, seed 7: failed: train_loss is not finite" in notes
    assert len(trained) == 3 and (tmp_path / "vit/seed-1/model").exists()


def test_the_table_is_written_after_every_run_and_when_a_sweep_is_interrupted(tmp_path, trained, monkeypatch):
    plan = make_plan([VIT], [0, 1, 2], tmp_path)
    seen, train = [], runs.train_in_process

    def stops(arguments, log):
        seen.append((tmp_path / "table.md").read_text())
        if len(seen) == 2:
            write_run(tmp_path / "vit/seed-1")
            raise KeyboardInterrupt
        return train(arguments, log)

    monkeypatch.setattr(runs, "train_in_process", stops)
    with pytest.raises(SystemExit) as ending:
        sweep(plan, lambda text: None)
    assert ending.value.code == 130
    assert "No run is finished yet" in seen[0] and "| vit | 1 | 51.00 |" in seen[1]
    assert "seed 1 (unfinished); vit, seed 2 (not started)" in (tmp_path / "table.md").read_text()


def test_a_run_started_by_hand_is_part_of_the_sweep(finished_run, tmp_path, trained):
    (tmp_path / "vit").mkdir()
    (tmp_path / "vit/seed-0").symlink_to(finished_run)
    plan, notes = make_plan([VIT], [0], tmp_path, overrides=SMALL), []
    assert sweep(plan, notes.append) == [] and not trained
    assert "is finished already" in notes[0]


@pytest.mark.parametrize(
    ("seed", "override", "message"),
    [
        (0, "--trainer.max_epochs=3", "holds a run with trainer.max_epochs 2, but this sweep has 3; name another"),
        (1, "--trainer.max_epochs=2", "seed-1: holds a run with seed_everything 0, but this sweep has 1"),
    ],
)
def test_a_folder_with_another_run_is_refused(finished_run, tmp_path, trained, seed, override, message):
    (tmp_path / "vit").mkdir()
    (tmp_path / f"vit/seed-{seed}").symlink_to(finished_run)
    with pytest.raises(InputError, match=message):
        sweep(make_plan([VIT], [2, seed], tmp_path, overrides=[*SMALL, override]), lambda text: None)
    assert not trained and not (tmp_path / "sweep.json").exists()


def test_a_file_in_the_place_of_a_runs_is_refused_before_the_first_training(tmp_path, trained):
    (tmp_path / "vit/seed-1").mkdir(parents=True)
    (tmp_path / "vit/seed-1/metrics.csv").touch()
    with pytest.raises(FileExistsError, match=r"seed-1: has metrics.csv"):
        sweep(make_plan([VIT], [0, 1], tmp_path, overrides=SMALL), lambda text: None)
    assert not trained


@pytest.mark.parametrize(
    ("given", "found", "refused"),
    [
        ("auto", "bf16-mixed", False),
        ("auto", "64-true", True),
        ("32-true", "bf16-mixed", True),
    ],
)
def test_runs_of_the_precision_auto_may_be_of_other_hardware(finished_run, tmp_path, given, found, refused):
    config = (finished_run / "config.yaml").read_text()
    assert "  precision: 32-true\n" in config
    (tmp_path / "vit/seed-0").mkdir(parents=True)
    resume(tmp_path / "vit/seed-0", config.replace("  precision: 32-true\n", f"  precision: {found}\n"), {})
    plan = make_plan([VIT], [0], tmp_path, overrides=[*SMALL, f"--trainer.precision={given}"])
    if refused:
        with pytest.raises(
            InputError, match=f"holds a run with trainer.precision '{found}', but this sweep has '{given}"
        ):
            check_plan(plan)
    else:
        check_plan(plan)


@pytest.mark.parametrize(
    ("variation", "message"),
    [
        (("model.network.init_args.encoder.depth", ["1", "two"]), r"vit,depth=two: .*depth"),
        (("model.network.init_args.encoder.heads", ["3"]), r"vit,heads=3: .*heads"),
    ],
)
def test_every_variant_is_checked_before_the_first_training(tmp_path, trained, variation, message):
    with pytest.raises(InputError, match=message):
        sweep(make_plan([VIT], [0, 1], tmp_path, [variation]), lambda text: None)
    assert not trained and list(tmp_path.iterdir()) == []


def test_only_options_that_do_not_change_what_is_learned_are_given_to_a_resumed_run():
    options = [
        "--config=shapes/vit",
        "--data.root=/mnt/seeds",
        "--data.init_args.source.init_args.root=y",
        "--trainer.accelerator=cpu",
        "--trainer.callbacks+=mine.Callback",
        "--trainer.max_epochs=2",
        "--seed_everything=1",
    ]
    assert where_to_run(options) == [options[1], options[2], options[3]]


def python(monkeypatch, code):
    """Replace `vitspeech train` by a Python program."""
    monkeypatch.setattr(runs, "TRAIN", [sys.executable, "-c", code])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print('epoch 1')", None),
        ("import sys; sys.exit('vitspeech train: the disk is full')", "the disk is full"),
        ("import sys; sys.exit(3)", "it printed nothing"),
        ("import os; os.kill(os.getpid(), 9)", "ended by SIGKILL (perhaps the machine ran out of memory)"),
        (
            "import sys\nfrom functools import partial\nfrom vitspeech import command_line\n"
            "command_line.run(lambda: 1 / 0, 'vitspeech train')",
            "bug: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_the_reason_why_a_run_failed_is_its_last_line_or_its_signal(tmp_path, monkeypatch, capsys, code, reason):
    python(monkeypatch, code)
    assert train_in_process(["--run=x"], tmp_path / "log") == reason


def test_the_output_of_a_run_is_printed_and_kept_and_continued_when_it_is_resumed(tmp_path, monkeypatch, capsys):
    python(monkeypatch, "import sys; print('epoch 1'); print('warning', file=sys.stderr); print(sys.argv[1:])")
    log = tmp_path / "seed-0.log"
    train_in_process(["--run=x"], log)
    train_in_process(["--resume=x"], log)
    lines = log.read_text().splitlines()
    assert {"epoch 1", "warning", "['--run=x']", "['--resume=x']"} == {*lines} and len(lines) == 6
    assert "  epoch 1\n" in capsys.readouterr().out
    train_in_process(["--run=x"], log)
    assert len(log.read_text().splitlines()) == 3


def test_an_interrupted_sweep_ends_its_run(tmp_path, monkeypatch):
    ended = tmp_path / "ended"
    code = "import signal, sys, time\nfrom pathlib import Path\n"
    code += f"signal.signal(signal.SIGTERM, lambda *_: (Path({str(ended)!r}).touch(), sys.exit(143)))\n"
    code += "print('epoch 1', flush=True)\ntime.sleep(60)"
    python(monkeypatch, code)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.print", interrupt)  # as Ctrl-C while the first line is shown
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        train_in_process(["--run=x"], tmp_path / "log")
    assert ended.exists() and time.monotonic() - begun < 10 and threading.active_count() < 10


def test_a_process_that_ignores_sigterm_is_killed():
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        runs.end(process, 0.2)
    assert process.returncode == -signal.SIGKILL
