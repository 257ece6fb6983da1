"""Tables as CSV and Parquet: whole ones, and those that grow and are resumed after errors and kills."""

import csv
import os
import random
import signal
import stat
import time

import datasets
import pytest
from pyarrow import parquet

from vitspeech.data import tables
from vitspeech.data.tables import GrowingTable, write_table
from vitspeech.errors import InputError

ROWS = [("a,b.png", 1, 0.98765), (os.fsdecode(b"bad\xff.png"), None, None), ('say "ü"\n', 2, 1)]
WHOLE = {"file": "", "rank": "d", "probability": ".3f"}
COLUMNS = {"file": "", "rank": "d", "probability": ".6f", "status": ""}
RUN = {"command": "predict", "top": 3, "paths": "ab" * 32}
BATCH, INPUTS = 4, 30


def test_csv_has_numbers_in_the_format_of_their_column(tmp_path):
    write_table(tmp_path / "rows.csv", WHOLE, iter(ROWS))
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [list(WHOLE), ["a,b.png", "1", "0.988"], [r"bad\udcff.png", "", ""], ['say "ü"\n', "2", "1.000"]]


def test_parquet_has_typed_columns_whose_numbers_are_not_rounded(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "GROUP_ROWS", 2)
    write_table(tmp_path / "rows.parquet", WHOLE, iter(ROWS))
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert [str(kind) for kind in table.schema.types] == ["string", "int64", "double"]
    expected = [("a,b.png", 1, 0.98765), (r"bad\udcff.png", None, None), ('say "ü"\n', 2, 1.0)]
    assert [tuple(row.values()) for row in table.to_pylist()] == expected
    assert parquet.ParquetFile(tmp_path / "rows.parquet").num_row_groups == 2


def test_parquet_is_opened_by_datasets(tmp_path):
    write_table(tmp_path / "rows.parquet", WHOLE, iter(ROWS))
    options = {"data_files": str(tmp_path / "rows.parquet"), "cache_dir": str(tmp_path / "cache")}
    found = datasets.load_dataset("parquet", split="train", **options)
    assert found[0] == {"file": "a,b.png", "rank": 1, "probability": 0.98765} and found["rank"][1:] == [None, 2]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_table_without_rows_has_its_columns_and_an_error_leaves_the_older_table(tmp_path, name):
    def broken():
        yield ROWS[0]
        raise ValueError("broken")

    path = tmp_path / name
    write_table(path, WHOLE, [])
    found = parquet.read_table(path).column_names if path.suffix == ".parquet" else path.read_text().strip().split(",")
    assert found == list(WHOLE)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="broken"):
        write_table(path, WHOLE, broken())
    assert path.read_bytes() == before and os.listdir(tmp_path) == [name]


def rows_of(number):
    """The rows of one input: some, one, or that of an input that can't be read."""
    if number % 11 == 5:
        return [(f"{number}.png", None, None, "empty")]
    return [(f"{number}.png", rank, number / (rank + 7), "ok") for rank in range(1, 1 + number % 3)]


def grow(path, *, resume=False, stop=INPUTS, run=RUN, error=RuntimeError, wait_s=0.0):
    """Add the rows of the inputs that are not done, up to `stop`, where an error interrupts."""
    with GrowingTable(path, COLUMNS, run, batch=BATCH, resume=resume) as table:
        first = table.done
        assert table.last == (f"{first - 1}.png" if first else "")
        for number in range(first, stop):
            time.sleep(wait_s)
            table.add(f"{number}.png", rows_of(number), unread=number % 11 == 5)
        if stop < INPUTS:
            raise error
    return table


@pytest.fixture(params=["csv", "parquet"])
def path(request, tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / f"out/rows.{request.param}"


@pytest.fixture
def whole(path, tmp_path):
    """The bytes of the table that nothing interrupted."""
    whole = tmp_path / f"whole{path.suffix}"
    write_table(whole, COLUMNS, [row for number in range(INPUTS) for row in rows_of(number)])
    return whole.read_bytes()


def partial_of(path):
    return path.with_name(f"{path.name}.partial")


@pytest.mark.parametrize("stop", [1, BATCH, BATCH + 1, 2 * BATCH, INPUTS - 1])
def test_a_table_is_resumed_after_the_last_whole_batch(path, whole, stop):
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(RuntimeError):
        grow(path, stop=stop)
    assert path.read_text() == "old" and partial_of(path).exists() == (stop >= BATCH)
    table = grow(path, resume=stop >= BATCH)
    assert path.read_bytes() == whole and table.unread == 3 and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("torn", [b'[12, "11.png", 1, [["8.png", 1, 0.', b"\0" * 20 + b"\n", b"\n"])
def test_what_was_not_written_whole_is_dropped(path, whole, torn):
    with pytest.raises(RuntimeError):
        grow(path, stop=2 * BATCH)
    with partial_of(path).open("ab") as file:
        file.write(torn)
    assert grow(path, resume=True).unread == 3 and path.read_bytes() == whole


def test_a_second_interruption_and_a_link_change_nothing(path, whole, tmp_path):
    link = tmp_path / f"link{path.suffix}"
    link.symlink_to(path)
    for resume, stop in ((False, 7), (True, 8), (True, 21)):
        with pytest.raises(RuntimeError):
            grow(link, resume=resume, stop=stop)
    grow(link, resume=True)
    assert link.is_symlink() and path.read_bytes() == whole


def test_ctrl_c_says_how_to_go_on(path):
    with pytest.raises(KeyboardInterrupt, match=f"{partial_of(path)} has the rows of 8 inputs; go on with --resume"):
        grow(path, stop=9, error=KeyboardInterrupt)


def test_rows_of_another_run_are_refused_and_stay(path, whole):
    with pytest.raises(InputError, match="nothing to resume"):
        grow(path, resume=True)
    with pytest.raises(RuntimeError):
        grow(path, stop=BATCH)
    with pytest.raises(InputError, match="left by an interrupted run; go on with --resume"):
        grow(path)
    for change, message in (({"top": 5}, "top was 3, and is 5 now"), ({"paths": "cd" * 32}, "paths was another")):
        with pytest.raises(InputError, match=f"cannot be resumed: {message}; repeat"):
            grow(path, resume=True, run=RUN | change)
    grow(path, resume=True)
    assert path.read_bytes() == whole


def test_a_file_of_something_else_is_refused_and_stays(path):
    partial_of(path).write_text("mine")
    with pytest.raises(InputError, match="is not what an interrupted run leaves"):
        grow(path, resume=True)
    assert partial_of(path).read_text() == "mine"


def test_a_table_is_written_by_one_process(path):
    with (
        GrowingTable(path, COLUMNS, RUN, batch=BATCH),
        pytest.raises(InputError, match="another process is writing it"),
    ):
        grow(path, resume=True)


def fork(path, *, resume):
    """Grow a table in a fork of this process, which ends it at any time; its id."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            grow(path, resume=resume, wait_s=0.002)
            status = 0
        finally:
            os._exit(status)
    return process


@pytest.mark.parametrize("seed", range(2))
def test_a_table_whose_process_is_killed_again_and_again_ends_as_any_other(path, whole, seed):
    delays, kills = random.Random(seed), 0
    for _ in range(100):
        process = fork(path, resume=partial_of(path).exists())
        time.sleep(delays.uniform(0, 0.06) * (1 + kills / 10))  # longer, in case this machine is busy
        os.kill(process, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0:
            break
        kills += 1
        if path.exists():  # killed between the two last steps
            break
    assert path.read_bytes() == whole and kills < 100
