"""`vitspeech` itself: its help, unknown commands, start-up time, a closed pipe."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import one_line
from tiny import ROOT

import vitspeech
from vitspeech import commands
from vitspeech.command_line import BROKEN_PIPE_STATUS

VITSPEECH = [sys.executable, "-m", "vitspeech"]


def test_help_lists_every_command_with_a_line_of_text(command):
    result = command("--help")
    assert result.returncode == 0
    for group, verbs in commands.GROUPS.items():
        assert f"\n{group}:\n" in result.stdout
        assert all(f"  {verb:18}{text}\n" in result.stdout for verb, text in verbs.items())


def test_every_command_has_a_module_and_every_module_has_a_command():
    modules = {path.stem for path in (ROOT / "vitspeech/commands").glob("*.py")} - {"__init__"}
    assert modules == set(commands.VERBS.values())
    assert all(callable(commands.command(verb)) for verb in commands.VERBS)


def test_no_command_at_all_shows_the_help_with_status_two(command):
    result = command()
    assert result.returncode == 2 and result.stdout.startswith("usage: vitspeech COMMAND")


def test_the_version_is_the_packages(command):
    assert command("--version").stdout == f"vitspeech {vitspeech.__version__}\n"


@pytest.mark.parametrize(("verb", "hint"), [("trian", "did you mean 'train'?"), ("xyz", "choose from train, sweep,")])
def test_an_unknown_command_is_one_line_with_a_hint(command, verb, hint):
    message = one_line(command(verb), status=2)
    assert message.startswith(f"vitspeech: unknown command {verb!r}; ") and hint in message


def test_help_does_not_import_torch():
    code = "import sys, vitspeech.commands\n"
    code += "for verb in vitspeech.commands.VERBS:\n"
    code += "    try: vitspeech.commands.main([verb, '--help'])\n"
    code += "    except SystemExit: print(f'\\n{verb}:', 'torch' in sys.modules)\n"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    lines = [line for line in run.stdout.splitlines() if line.endswith((": True", ": False"))]
    assert lines == [f"{verb}: False" for verb in commands.VERBS]
    assert all(f"usage: vitspeech {verb} " in run.stdout for verb in commands.VERBS)


def test_help_takes_less_than_a_second():
    def seconds():
        start = time.perf_counter()
        subprocess.run([*VITSPEECH, "train", "--help"], check=True, capture_output=True)
        return time.perf_counter() - start

    # The fastest of three: other processes may keep this machine busy.
    assert any(seconds() < 1 for _ in range(3))


def test_a_closed_pipe_ends_a_command_quietly():
    # `head` closes the pipe after the first line; the list of configs is written after that.
    shell = f"{sys.executable} -c \"import sys; from vitspeech import commands; input(); commands.main(['configs'])\""
    run = subprocess.run(
        ["bash", "-c", f"(sleep 0.5; echo) | {shell} | true; exit ${{PIPESTATUS[1]}}"], capture_output=True, text=True
    )
    assert (run.returncode, run.stderr) == (BROKEN_PIPE_STATUS, "")


def test_a_traceback_is_shown_on_request(command, monkeypatch):
    monkeypatch.setenv("VITSPEECH_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        command("predict", "nowhere", "x.png")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_output_that_cannot_be_written_is_one_line_with_status_one():
    with open("/dev/full", "w") as full:
        run = subprocess.run([*VITSPEECH, "train", "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and "No space left on device" in run.stderr, run.stderr
