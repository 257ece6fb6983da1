"""scripts/benchmark.py: its options, its table and its files."""

import json

import pytest


def test_a_benchmark_prints_a_table_and_leaves_json_and_a_picture(script, tmp_path):
    size = ["--tokens", 16, "--batch", 1, "--heads", 1, "--width", 4, "--left", 8, "--right", 8, "--dtypes", "bf16"]
    path = tmp_path / "deep" / "attention.json"
    result = script("benchmark", "attention", *size, "--repeats", 1, "--no-memory", "--json", path)
    assert result.returncode == 0, result.stderr
    assert "forward+backward, bf16" in result.stdout and result.stdout.endswith(f"\n\n{path}\n")
    assert json.loads(path.read_text())["complete"]
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("line", [["--repeats", 0], ["--dtypes", "fp8"], ["--tokens", 0], ["--variants", "ous"]])
def test_a_benchmark_that_cannot_be_leaves_nothing(script, tmp_path, line):
    path = tmp_path / "out.json"
    result = script("benchmark", "attention", *line, "--json", path)
    assert result.returncode in (1, 2) and str(line[-1]) in result.stderr and "Traceback" not in result.stderr
    assert not path.exists()
