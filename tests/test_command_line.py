"""What commands share: the device that `--device` names, and their output."""

import io
import os
import shlex
import subprocess
import sys
import warnings

import pytest
import torch
from running import one_line

from vitspeech import command_line
from vitspeech.command_line import find_device
from vitspeech.errors import InputError
from vitspeech.files import write_csv


@pytest.mark.parametrize(("found", "device"), [(False, "cpu"), (True, "cuda")])
def test_auto_is_the_gpu_if_there_is_one(monkeypatch, found, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found)
    assert find_device("auto") == device and find_device("cpu") == "cpu"


@pytest.mark.parametrize("name", ["cuda:99", "gpu", "cuda:-1", "auto:0", "meta", ""])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(InputError, match=f"--device {name}: ."):
        find_device(name)


@pytest.mark.parametrize("verb", ["evaluate", "predict", "transcribe", "compare"])
def test_a_device_is_tried_before_the_model_is_loaded(command, tmp_path, verb):
    others = {"evaluate": (), "compare": ("-o", tmp_path / "report")}.get(verb, (tmp_path,))
    result = command(verb, tmp_path / "no model is read", *others, "--device", "cuda:99")
    assert one_line(result).startswith(f"vitspeech {verb}: --device cuda:99: ")


def test_names_that_are_not_utf_8_are_printed_as_they_are(monkeypatch):
    output = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output, "utf-8"))
    command_line.run(lambda: print(os.fsdecode(b"bad\xff.jpg")), "vitspeech predict")
    assert output.getvalue() == b"bad\xff.jpg\n"


def test_characters_that_an_output_lacks_are_replaced(monkeypatch):
    output = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output, "ascii"))
    command_line.run(lambda: print("0.5 – 1.5 s  café ж", os.fsdecode(b"bad\xff.wav")), "vitspeech stream")
    assert output.getvalue() == b"0.5 - 1.5 s  caf\\xe9 \\u0436 bad\xff.wav\n"


def test_names_are_utf_8_in_files_also_where_the_locale_is_not(tmp_path):
    write_csv(tmp_path / "a.csv", ["file"], [["caf\udcc3\udca9-\udcff ж"]])
    assert (tmp_path / "a.csv").read_bytes().decode() == "file\r\ncafé-\\udcff ж\r\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_outputs_may_be_closed(tmp_path, closed):
    """No file gets the number of an output: C libraries would write into it."""
    code = f"""
import sys
from vitspeech.command_line import run

def write():
    print("out", sys.stdout.isatty(), sys.stderr.write("err"), flush=True)
    with open({str(tmp_path / "found")!r}, "w") as file:
        file.write(str(file.fileno() > 2))

run(write, "vitspeech")
"""
    command = shlex.join([sys.executable, "-c", code])
    assert subprocess.run(f"{command} {closed}", shell=True, capture_output=True).returncode == 0
    assert (tmp_path / "found").read_text() == "True"


@pytest.mark.parametrize("caused", [False, True])
def test_a_warning_that_the_user_made_an_error_is_no_bug(caused):
    def warn():
        try:
            raise UserWarning("two\nlines")
        except UserWarning as warning:
            raise (ValueError("caused") if caused else warning) from warning

    message = r"^vitspeech predict: two lines \(UserWarning, an error by -W or PYTHONWARNINGS\)$"
    with pytest.raises(SystemExit, match=message):
        command_line.run(warn, "vitspeech predict")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["samples", ""], "an argument"),
        (["train", "--run="], "--run"),
        (["evaluate", "runs/x", "--data", ""], "--data"),
    ],
)
def test_an_empty_argument_is_not_the_current_folder(command, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    assert f": {named} is empty; is a variable unset?" in one_line(command(*arguments), status=2)
    assert not any(tmp_path.iterdir())


def test_a_message_is_one_line_and_does_not_move_the_cursor():
    assert command_line.one_line("a \n b\x1b[31m\x9b1m.wav \r\n café\udcff") == r"a b\x1b[31m\x9b1m.wav " + "café\udcff"


def test_a_warning_is_one_line_and_does_not_move_the_cursor(capsys):
    warning = ("two\nlines\x1b[2J", UserWarning, __file__, 1)
    command_line.run(lambda: print(warnings.formatwarning(*warning), end=""), "vitspeech predict")
    assert capsys.readouterr().out == "vitspeech predict: warning: two lines\\x1b[2J\n"
