"""What commands share: the device that `--device` names, and their output."""

import io
import os
import warnings

import pytest
import torch
from running import one_line

from vitspeech import command_line
from vitspeech.command_line import find_device
from vitspeech.errors import InputError


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


def test_a_message_is_one_line_and_does_not_move_the_cursor():
    assert command_line.one_line("a \n b\x1b[31m\x9b1m.wav \r\n café\udcff") == r"a b\x1b[31m\x9b1m.wav " + "café\udcff"


def test_a_warning_is_one_line_and_does_not_move_the_cursor(capsys):
    warning = ("two\nlines\x1b[2J", UserWarning, __file__, 1)
    command_line.run(lambda: print(warnings.formatwarning(*warning), end=""), "vitspeech predict")
    assert capsys.readouterr().out == "vitspeech predict: warning: two lines\\x1b[2J\n"
