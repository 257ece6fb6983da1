"""`vitspeech benchmark`: each benchmark prints its table and writes its numbers."""

import json

import pytest
from running import one_line

from vitspeech.benchmark import speech


def test_benchmark_of_attention_prints_a_table_and_leaves_json_and_a_picture(command, tmp_path):
    size = ["--tokens", 16, 48, "--batch", 1, "--heads", 2, "--width", 4, "--left", 8, "--right", 8]
    path = tmp_path / "deep" / "attention.json"
    result = command("benchmark", "attention", *size, "--repeats", 1, "--no-memory", "--json", path)
    assert result.returncode == 0, result.stderr
    assert "forward+backward, bf16" in result.stdout and "dense mask" in result.stdout
    assert json.loads(path.read_text())["complete"]
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_benchmark_of_the_vit_prints_a_table_and_leaves_json(command, tmp_path):
    path = tmp_path / "vit.json"
    size = ["--batch", 2, "--repeats", 1, "--dtypes", "fp32"]
    result = command("benchmark", "vit", *size, "--json", path)
    assert result.returncode == 0, result.stderr
    assert "torchvision" in result.stdout and json.loads(path.read_text())["complete"]


def test_benchmark_of_speech_prints_a_table_and_leaves_json(command, monkeypatch, tmp_path):
    monkeypatch.setattr(speech, "HELD", 7)
    monkeypatch.setattr(speech, "FILES", 5)
    path = tmp_path / "speech.json"
    size = ["--batch", 2, "--repeats", 1, "--dtypes", "fp32", "--stream-minutes", 0.05]
    result = command("benchmark", "speech", *size, "--json", path)
    assert result.returncode == 0, result.stderr
    assert "torchaudio" in result.stdout and "real-time factor" in result.stdout
    assert json.loads(path.read_text())["complete"]


def test_benchmark_of_the_loader_writes_its_rates_where_it_is_told(command, tmp_path):
    path = tmp_path / "loader.json"
    result = command("benchmark", "loader", "--passes", 1, "--images", 512, "--json", path)
    report = json.loads(path.read_text())
    assert result.stdout.count("images/s") == len(report["loader"]) == 5 and report["commit"]


@pytest.mark.parametrize(
    ("what", "option", "value", "message"),
    [
        ("attention", "--left", -1, "left=-1, right=32: give 0 or more tokens"),
        ("attention", "--repeats", 0, "repeats=0 is below 1"),
        ("attention", "--tokens", 0, "tokens=[0]: give lengths of at least 1"),
        ("attention", "--variants", "ous", "'ous' is unknown; known: ours, full"),
        ("vit", "--dtypes", "fp8", "'fp8' is unknown; known: fp32, bf16"),
        ("vit", "--batch", 0, "batch=0 is below 1"),
        ("speech", "--stream-minutes", 0, "stream_minutes=0.0 is not a finite number from 0.05 on"),
        ("loader", "--images", 7, "images=7 is not between one batch and one epoch, 512..50000"),
    ],
)
def test_a_benchmark_that_cannot_be_is_one_line_and_leaves_nothing(command, tmp_path, what, option, value, message):
    path = tmp_path / "out.json"
    assert message in one_line(command("benchmark", what, option, value, "--json", path))
    assert not path.exists()
