"""Running a script of the authors in this process."""

import sys
from collections.abc import Callable
from importlib import import_module

import pytest
from running import Result, run_here

from vitspeech import command_line


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., Result]:
    """Run `python scripts/NAME.py ARGUMENTS`."""

    def run(name: str, *arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        return run_here(lambda: command_line.run(import_module(name).main, f"{name}.py"), capsys)

    return run
