"""`vitspeech train`: mistakes end in one line and leave no run behind."""

import pytest
from running import one_line
from tiny import ROOT


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("--model.network.init_args.encoder.heads=5", "heads=5 does not divide width=64"),
        ("--model.network.init_args.patch=5", "patch=5 does not divide image=32"),
    ],
)
def test_a_network_that_cannot_be_is_one_line(command, tmp_path, override, reason):
    run = tmp_path / "run"
    result = command("train", "--config", ROOT / "configs/shapes/vit.yaml", override, "--run", run)
    assert reason in one_line(result)
    assert not run.exists()


def test_a_missing_data_set_is_one_line_and_leaves_no_run(command, tmp_path, monkeypatch):
    config = ROOT / "configs/cifar10/vit.yaml"
    monkeypatch.setenv("VITSPEECH_DATA", str(tmp_path / "void"))
    result = command("train", "--config", config, "--run", tmp_path / "run")
    assert "void/cifar-10-batches-py: CIFAR-10 is " in one_line(result)
    assert not (tmp_path / "run").exists()
