"""Whole tables as CSV and Parquet."""

import csv
import os

import pytest
from pyarrow import parquet

from vitspeech.data import tables
from vitspeech.data.tables import to_arrow, write_parquet, write_table

COLUMNS = {"file": "", "rank": "d", "probability": ".3f"}
ROWS = [("a,b.png", 1, 0.98765), (os.fsdecode(b"bad\xff.png"), None, None), ('say "ü"\n', 2, 1)]


def test_csv_has_numbers_in_the_format_of_their_column(tmp_path):
    write_table(tmp_path / "rows.csv", COLUMNS, iter(ROWS))
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["file", "rank", "probability"],
        ["a,b.png", "1", "0.988"],
        [r"bad\udcff.png", "", ""],
        ['say "ü"\n', "2", "1.000"],
    ]


def test_parquet_has_typed_columns_whose_numbers_are_not_rounded(tmp_path):
    write_table(tmp_path / "rows.parquet", COLUMNS, iter(ROWS))
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert [str(kind) for kind in table.schema.types] == ["string", "int64", "double"]
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("a,b.png", 1, 0.98765),
        (r"bad\udcff.png", None, None),
        ('say "ü"\n', 2, 1.0),
    ]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_table_without_rows_has_its_columns(tmp_path, name):
    write_table(tmp_path / name, COLUMNS, [])
    path = tmp_path / name
    found = parquet.read_table(path).column_names if path.suffix == ".parquet" else path.read_text().strip().split(",")
    assert found == list(COLUMNS)


def test_a_parquet_file_does_not_depend_on_how_its_rows_were_split(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "GROUP_ROWS", 10)
    rows = [(f"{number % 7}.png", number, number / 7) for number in range(37)]
    for name, sizes in {"whole": [37], "single": [1] * 37, "some": [3, 10, 20, 4], "none": [0, 37, 0]}.items():
        parts, start = [], 0
        for size in sizes:
            parts.append(to_arrow(COLUMNS, rows[start : start + size]))
            start += size
        write_parquet(tmp_path / name, COLUMNS, parts)
    write_table(tmp_path / "table.parquet", COLUMNS, rows)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    groups = parquet.ParquetFile(tmp_path / "whole").metadata
    assert [groups.row_group(index).num_rows for index in range(groups.num_row_groups)] == [10, 10, 10, 7]


def test_an_error_halfway_leaves_the_older_table(tmp_path):
    def broken():
        yield ROWS[0]
        raise ValueError("broken")

    for name in ("rows.csv", "rows.parquet"):
        (tmp_path / name).write_text("old")
        with pytest.raises(ValueError, match="broken"):
            write_table(tmp_path / name, COLUMNS, broken())
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [
        ("rows.csv", "old"),
        ("rows.parquet", "old"),
    ]
