"""The origin of a number: the hardware that was used, and every start of a run."""

import subprocess

import torch

import vitspeech
from vitspeech import provenance as module
from vitspeech.provenance import hardware, provenance, with_start


def test_a_computation_on_the_cpu_of_a_machine_with_gpus_names_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"H200 of {device}")
    assert "H200" not in hardware() and "core" in hardware("cpu")
    assert hardware(torch.device("cuda", 1)) == "1 × H200 of cuda:1"
    assert provenance("cuda", 4)["hardware"] == "4 × H200 of cuda"


def test_one_core_is_singular(monkeypatch):
    for threads, text in ((1, ", 1 core"), (2, ", 2 cores")):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert hardware().endswith(text)


def test_a_resumed_run_keeps_every_start_that_differs_from_the_one_before():
    starts = [{"commit": commit, "hardware": "a CPU", "versions": {}} for commit in "aabba"]
    record = None
    for start in starts:
        record = with_start(record, start)
    assert record == starts[0] | {"resumed": [starts[2], starts[4]]}


def test_the_commit_is_that_of_the_sources(tmp_path, monkeypatch):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        run = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return run.stdout.strip()

    file = tmp_path / "package/vitspeech/provenance.py"
    file.parent.mkdir(parents=True)
    file.write_text("first")
    monkeypatch.setattr(module, "__file__", str(file))
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    assert provenance()["commit"] == f"vitspeech {vitspeech.__version__}"  # a wheel in somebody else's repository
    (tmp_path / ".git").rename(tmp_path / "package/.git")
    monkeypatch.chdir(tmp_path / "package")
    tmp_path = tmp_path / "package"
    git("reset", "-q")
    git("add", "-A")
    git("commit", "-qm", "second")
    git("tag", "v1")  # is not what a number comes from
    assert provenance()["commit"] == git("rev-parse", "HEAD")[:12]
    file.write_text("second")
    assert provenance()["commit"] == git("rev-parse", "HEAD")[:12] + "-dirty"
