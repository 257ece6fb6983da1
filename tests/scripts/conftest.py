"""Running a script of the authors in this process."""

import sys
from collections.abc import Callable
from importlib import import_module

import pytest
from running import Result

from vitspeech import command_line


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., Result]:
    """Run `python scripts/NAME.py ARGUMENTS`."""

    def run(name: str, *arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        capsys.readouterr()
        status = 0
        try:
            command_line.run(import_module(name).main, f"{name}.py")
        except SystemExit as stopped:
            status = stopped.code or 0
            if isinstance(status, str):  # Python prints such a message and exits with 1
                print(status, file=sys.stderr)
                status = 1
        printed = capsys.readouterr()
        return Result(status, printed.out, printed.err)

    return run
