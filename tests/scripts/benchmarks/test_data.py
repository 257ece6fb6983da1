"""The benchmark of reading data, on a few items."""

import json

from benchmarks.data import SETS, Settings, benchmark, table
from benchmarks.data_index import measure_index


def test_every_storage_is_read_beside_others(tmp_path):
    report = benchmark(Settings(items=60, batch=8, workers=(0,), repeats=1, indices=(300,)), tmp_path / "data.json")
    assert json.loads((tmp_path / "data.json").read_text())["index"][0]["items"] == 300
    assert list(report["reading"]) == list(SETS)
    for name, rates in report["reading"].items():
        other = "DataLoader of soundfile" if name == SETS[2] else "torchvision"
        variants = {"memory", "files, 0 workers", "pack, 0 workers", f"{other}, 0 workers", "Arrow alone, in order"}
        assert set(rates) == variants and all(row["per_second"] > 0 for row in rates.values())
    text = table(report)
    assert "clips of 1 s: items/s" in text and "bytes an item" in text


def test_an_index_is_measured_in_a_process_of_its_own(tmp_path):
    row = measure_index(tmp_path / "index", 200_000)
    assert row["items"] == 200_000 and 8 <= row["bytes_per_item"] < 100
    assert row["first_batch_s"] > 0 < row["last_batch_s"]
