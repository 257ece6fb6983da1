"""The scripts of the checkout: each is a short wrapper of the command of the same purpose."""

import runpy
import sys

import pytest
from tiny import ROOT

from vitspeech.commands import VERBS

SCRIPTS = sorted((ROOT / "scripts").glob("*.py"))
VERB_OF = {"compare_receptive_fields": "compare", "probe_distance": "probe"}


def test_every_script_shows_the_help_of_its_command_under_its_own_name(monkeypatch, capsys):
    assert len(SCRIPTS) == 11
    for path in SCRIPTS:
        verb = VERB_OF.get(path.stem, path.stem)
        assert verb in VERBS and f"`vitspeech {verb}`" in path.read_text(), path
        monkeypatch.setattr(sys, "argv", [str(path), "--help"])
        with pytest.raises(SystemExit) as ending:
            runpy.run_path(str(path), run_name="__main__")
        assert not ending.value.code
        assert capsys.readouterr().out.startswith(f"usage: {path.name} "), path
