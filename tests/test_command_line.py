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


@pytest.fixture
def gpus(monkeypatch):
    """Let torch find this number of CUDA GPUs."""

    def found(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    return found


@pytest.mark.parametrize(
    ("count", "name", "device"),
    [(0, "auto", "cpu"), (2, "auto", "cuda"), (2, "cpu", "cpu"), (2, "cuda", "cuda"), (2, "cuda:1", "cuda:1")],
)
def test_auto_is_the_gpu_if_there_is_one_and_a_device_that_is_named_is_taken(gpus, count, name, device):
    gpus(count)
    assert find_device(name) == device


@pytest.mark.parametrize(
    ("count", "name", "message"),
    [
        (0, "cuda", "--device cuda: torch .* finds no CUDA GPU on this machine"),
        (1, "cuda:1", "--device cuda:1: there is no such GPU; the only GPU is cuda:0"),
        (4, "cuda:4", "--device cuda:4: there is no such GPU; the GPUs are cuda:0 .. cuda:3"),
        (1, "mps", "--device mps: torch .* finds no Apple GPU"),
        (1, "gpu", "--device gpu: choose from auto, cpu, cuda, cuda:N, mps"),
        (1, "cuda:-1", "--device cuda:-1: choose from"),
        (1, "auto:0", "--device auto:0: choose from"),
        (1, "", "--device : choose from"),
    ],
)
def test_a_device_that_is_not_there_is_refused(gpus, count, name, message):
    gpus(count)
    with pytest.raises(InputError, match=message):
        find_device(name)


@pytest.mark.parametrize("verb", ["evaluate", "predict", "transcribe", "compare"])
def test_a_device_is_checked_before_the_model_is_loaded(command, gpus, tmp_path, verb):
    gpus(1)
    others = {"evaluate": (), "compare": ("-o", tmp_path / "report")}.get(verb, (tmp_path,))
    result = command(verb, tmp_path / "no model is read", *others, "--device", "cuda:7")
    assert one_line(result) == f"vitspeech {verb}: --device cuda:7: there is no such GPU; the only GPU is cuda:0"


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
