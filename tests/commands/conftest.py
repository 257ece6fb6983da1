"""Commands as a user runs them, but in this process; a sample image and a sample recording."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import Result

from vitspeech import commands
from vitspeech.data.clips import spoken_words
from vitspeech.data.images.shapes import save_example


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., Result]:
    """Run `vitspeech VERB ARGUMENTS`."""

    def run(*arguments: object) -> Result:
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr(sys, "argv", ["vitspeech", *words])
        capsys.readouterr()
        status = 0
        try:
            commands.main()
        except SystemExit as stopped:
            status = stopped.code or 0
            if isinstance(status, str):  # Python prints such a message and exits with 1
                print(status, file=sys.stderr)
                status = 1
        printed = capsys.readouterr()
        return Result(status, printed.out, printed.err)

    return run


@pytest.fixture
def star(tmp_path: Path) -> Path:
    """An image of a star."""
    save_example(str(tmp_path / "star.png"))
    return tmp_path / "star.png"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A recording of the synthesized words left, go."""
    spoken_words.save_example(tmp_path / "words.wav", ["left", "go"])
    return tmp_path / "words.wav"
