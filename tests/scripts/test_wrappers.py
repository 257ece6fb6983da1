"""The scripts of the checkout: short wrappers of commands, and the authors' own, which are not in the wheel."""

import runpy
import sys

import pytest
from tiny import ROOT

from vitspeech.commands import VERBS

PARTS = {"api_pages"}  # modules that a script imports: of tables.py
SCRIPTS = sorted(path for path in (ROOT / "scripts").glob("*.py") if path.stem not in PARTS)
VERB_OF = {"compare_receptive_fields": "compare", "probe_distance": "probe"}
OWN = {"benchmark", "compare_encoders", "gpu_hour", "tables"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_shows_its_help_under_its_own_name(path, monkeypatch, capsys):
    verb = VERB_OF.get(path.stem, path.stem)
    assert path.stem in OWN or (verb in VERBS and f"`vitspeech {verb}`" in path.read_text())
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as ending:
        runpy.run_path(str(path), run_name="__main__")
    assert not ending.value.code
    assert capsys.readouterr().out.startswith(f"usage: {path.name} ")
