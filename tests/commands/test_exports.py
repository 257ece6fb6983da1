"""`vitspeech export`: what it prints, and what bad input gets."""

import pytest
import torch

from vitspeech.commands import main


@pytest.mark.skipif(torch.__version__ < (2, 11), reason="an export needs torch 2.11")
def test_export_writes_a_folder_and_prints_the_difference(finished_speech_run, tmp_path, capsys):
    main(["export", str(finished_speech_run), str(tmp_path / "new/words")])
    printed = capsys.readouterr().out
    assert "wrote model.onnx (" in printed and "ONNX Runtime differs from the network by at most" in printed
    assert {"model.json", "model.onnx", "run.py"} <= {path.name for path in (tmp_path / "new/words").iterdir()}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["nothing", "out"], 1, "nothing: missing"),
        (["RUN", "."], 1, ".: exists; name a new folder"),
        (["RUN", "file/out"], 1, "is not a folder"),
        (["RUN", "out", "--stream"], 1, "ViT can't be streamed"),
        (["RUN", "out", "--offline", "--stream"], 2, "give either --offline or --stream"),
    ],
)
def test_what_cannot_be_exported_is_one_line(command, finished_run, tmp_path, monkeypatch, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    result = command("export", *[finished_run if each == "RUN" else each for each in arguments])
    assert result.returncode == status and message in result.stderr and not (tmp_path / "out").exists()
