"""Numbers that a user gave: NaN passes comparisons with `<`, so every constructor is called with it."""

import builtins
import importlib.metadata
import inspect
import math
import re
import runpy
import typing

import pytest
import torch
from arguments import nested

import vitspeech
from vitspeech import torch_audio
from vitspeech.attention import EncoderConfig
from vitspeech.errors import InputError, check_number
from vitspeech.frontends import LogMel

REQUIRED = {"network": torch.nn.Identity(), "source": None, "root": ".", "width": 16, "heads": 2, "mels": 8, "seed": 0}
REQUIRED |= {"batch": 10, "config": EncoderConfig(), "words": ["go", "stop"], "teachers": "runs/mine/0"}
NO_ARGUMENTS_OF_USERS = {vitspeech.InputError, vitspeech.Model, vitspeech.Report, vitspeech.TensorItems}
NO_ARGUMENTS_OF_USERS |= {vitspeech.WordClip, vitspeech.Transcript}
NO_ARGUMENTS_OF_USERS |= {vitspeech.SpottingSettings}  # whose file is exported without torch: it raises ValueErrors
CLASSES = [getattr(vitspeech, name) for name in vitspeech.__all__ if inspect.isclass(getattr(vitspeech, name))]


def number_arguments():
    """Each public class with the name of an argument that takes one float or two."""
    for kind in [*CLASSES, LogMel]:
        if kind in NO_ARGUMENTS_OF_USERS:
            continue
        for name, hint in typing.get_type_hints(kind.__init__).items():
            if name == "floor_db":  # infinity switches the floor off
                continue
            if hint in (float, float | None, tuple[float, float]):
                yield pytest.param(kind, name, hint, id=f"{kind.__name__}-{name}")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("kind, name, hint", list(number_arguments()))
def test_numbers_that_are_not_finite_are_refused(kind, name, hint, bad):
    parameters = inspect.signature(kind.__init__).parameters.values()
    needed = {
        p.name: REQUIRED[p.name] for p in parameters if p.name in REQUIRED and p.default is inspect.Parameter.empty
    }
    if "source" in needed:
        needed["source"] = vitspeech.SpokenWords()
    if kind is vitspeech.JointRecognition:
        needed["network"] = vitspeech.SpeechTranscriber(2, **nested(ctc=True))
    with pytest.raises(InputError, match=name):
        kind(**needed | {name: (bad, bad) if hint == tuple[float, float] else bad})


@pytest.mark.parametrize(
    "value, low, high, message",
    [
        (-1, 0, 2, "x=-1 is not a number from 0 to 2"),
        (3, -math.inf, 2, "x=3 is not a number to 2"),
        (math.nan, 0, math.inf, "x=nan is not a number from 0"),
        (True, 0, 2, "x=True is not a number from 0 to 2"),
        ((2, 1), 0, 2, "x=[2, 1] is not a range from low to high, each from 0 to 2"),
        ((-1, 1), 0, 2, "x=[-1, 1] is not a range"),
        ((1,), 0, 2, "x=[1] is not a range"),
    ],
)
def test_a_number_or_pair_out_of_its_range_is_named_with_the_range(value, low, high, message):
    with pytest.raises(InputError, match=re.escape(message)):
        check_number("x", value, low, high)
    check_number("x", 2, low, high)
    check_number("x", (1, 2), low, high)


@pytest.mark.parametrize(
    "torch_version, fitting", [("2.9.1", "2.9.*"), ("2.11.0+cu130", "2.11.0"), ("2.14.1", "2.11.1")]
)
def test_a_torchaudio_that_does_not_load_is_named_with_one_that_does(torch_version, fitting, monkeypatch):
    def load(name, *arguments, original=builtins.__import__):
        if name == "torchaudio":
            raise OSError("undefined symbol: torch_exception_get_what_without_backtrace")
        return original(name, *arguments)

    monkeypatch.setattr(importlib.metadata, "version", {"torch": torch_version, "torchaudio": "2.8.0"}.get)
    monkeypatch.setattr(builtins, "__import__", load)
    with pytest.raises(InputError, match=rf'torchaudio 2\.8\.0 .*"torchaudio=={re.escape(fitting)}"'):
        runpy.run_path(torch_audio.__file__)
