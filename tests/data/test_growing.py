"""Tables that grow: they are resumed after errors and kills, and end as those of a run that nothing interrupted."""

import errno
import json
import os
import random
import re
import signal
import stat
import time

import pytest

from vitspeech.data import tables as growing_formats
from vitspeech.data.tables import open_table, write_table
from vitspeech.errors import InputError

COLUMNS = {"file": "", "rank": "d", "probability": ".6f", "status": ""}
RUN = {"command": "predict", "top": 3, "paths": "ab" * 32}
BATCH, INPUTS = 4, 30
BODIES = {"csv": "rows.csv.partial", "parquet": "rows.parquet.parts"}


def rows_of(number):
    """The rows of one input: some, one, or that of an input that can't be read."""
    if number % 11 == 5:
        return [(f"{number}.png", None, None, "empty")]
    return [(f"{number}.png", rank, number / (rank + 7), "ok") for rank in range(1, 1 + number % 3)]


def grow(path, *, resume=False, stop=INPUTS, run=RUN, error=RuntimeError, wait_s=0.0):
    """Add the rows of the inputs that are not done, up to `stop`, where an error interrupts."""
    with open_table(path, COLUMNS, run, batch=BATCH, resume=resume) as table:
        first = table.done
        assert table.last == (f"{first - 1}.png" if first else "")
        for number in range(first, stop):
            time.sleep(wait_s)
            table.add(f"{number}.png", rows_of(number), unread=number % 11 == 5)
        if stop < INPUTS:
            raise error
    return table


@pytest.fixture(params=["csv", "parquet"])
def path(request, tmp_path, monkeypatch):
    """Where a table is to be; its state is saved after every batch, and row groups are small."""
    monkeypatch.setattr(growing_formats.GrowingCsv, "save_s", 0.0)
    monkeypatch.setattr(growing_formats.GrowingParquet, "save_s", 0.0)
    (tmp_path / "out").mkdir()
    return tmp_path / f"out/rows.{request.param}"


@pytest.fixture
def whole(path, tmp_path):
    """The bytes of the table that nothing interrupted."""
    whole = tmp_path / f"whole{path.suffix}"
    write_table(whole, COLUMNS, [row for number in range(INPUTS) for row in rows_of(number)])
    return whole.read_bytes()


def body_of(path):
    return path.with_name(BODIES[path.suffix[1:]])


def test_a_table_is_whole_at_the_end_and_alone(path, whole):
    table = grow(path)
    assert path.read_bytes() == whole and [file.name for file in path.parent.iterdir()] == [path.name]
    assert table.unread == 3


def test_an_older_table_stays_until_the_end_and_keeps_its_permissions(path, whole):
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(RuntimeError):
        grow(path, stop=BATCH)
    assert path.read_text() == "old"
    grow(path, resume=True)
    assert path.read_bytes() == whole and stat.S_IMODE(path.stat().st_mode) == 0o640


def test_rows_can_be_read_while_the_table_grows(tmp_path):
    with open_table(tmp_path / "rows.csv", COLUMNS, RUN, batch=BATCH) as table:
        for number in range(BATCH):
            table.add(number, [(number, None, None, "ok")])
        assert (tmp_path / "rows.csv.partial").read_text().splitlines()[1:] == [f"{n},,,ok" for n in range(BATCH)]


@pytest.mark.parametrize("stop", range(1, INPUTS))
def test_a_table_is_resumed_after_the_last_whole_batch(path, whole, stop):
    with pytest.raises(RuntimeError):
        grow(path, stop=stop)
    assert body_of(path).exists() == (stop >= BATCH)
    table = grow(path, resume=stop >= BATCH)
    assert path.read_bytes() == whole and table.unread == 3 and not body_of(path).exists()


def test_what_was_written_after_the_state_is_cut_off(path, whole):
    with pytest.raises(RuntimeError):
        grow(path, stop=2 * BATCH)
    body = body_of(path)
    if body.is_dir():
        (body / f"{2:06}.parquet").write_bytes(b"PAR1torn")
        (body / "state.json.new").write_text("{")
    else:
        body.write_bytes(body.read_bytes() + b'8.png,1,0.25,ok\r\n9.png,"')
    grow(path, resume=True)
    assert path.read_bytes() == whole


def test_a_second_interruption_and_a_link_change_nothing(path, whole, tmp_path):
    link = tmp_path / f"link{path.suffix}"
    link.symlink_to(path)
    for resume, stop in ((False, 7), (True, 8), (True, 21)):
        with pytest.raises(RuntimeError):
            grow(link, resume=resume, stop=stop)
    grow(link, resume=True)
    assert link.is_symlink() and path.read_bytes() == whole


def test_a_full_disk_in_the_middle_of_a_batch_loses_that_batch_alone(tmp_path, monkeypatch):
    path, pwrite = tmp_path / "rows.csv", os.pwrite
    write_table(tmp_path / "whole.csv", COLUMNS, [row for number in range(INPUTS) for row in rows_of(number)])

    def fill(file, data, offset):
        if offset > 250:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(file, data[:30], offset)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(os, "pwrite", fill)
        grow(path)
    assert (tmp_path / "rows.csv.partial").stat().st_size > 250
    grow(path, resume=True)
    assert path.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_ctrl_c_says_how_to_go_on(path):
    with pytest.raises(KeyboardInterrupt, match=f"{body_of(path)} has the rows of 8 inputs; go on with --resume"):
        grow(path, stop=9, error=KeyboardInterrupt)


def test_without_resume_an_interrupted_table_is_not_touched(path):
    with pytest.raises(InputError, match="does not exist, so there is nothing to resume"):
        grow(path, resume=True)
    with pytest.raises(RuntimeError):
        grow(path, stop=BATCH)
    with pytest.raises(InputError, match="left by an interrupted run; go on with --resume, or remove it to start over"):
        grow(path)
    grow(path, resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top": 5}, "cannot be resumed: top was 3, and is 5 now; repeat"),
        ({"paths": "cd" * 32}, "cannot be resumed: paths was another; repeat"),
        ({"beam": 8}, "cannot be resumed: beam was None, and is 8 now; repeat"),
    ],
)
def test_rows_of_another_run_are_refused_and_stay(path, whole, change, message):
    with pytest.raises(RuntimeError):
        grow(path, stop=BATCH)
    with pytest.raises(InputError, match=message):
        grow(path, resume=True, run=RUN | change)
    grow(path, resume=True)
    assert path.read_bytes() == whole


def test_a_broken_state_is_one_line_and_without_one_there_are_no_rows(path, whole):
    with pytest.raises(RuntimeError):
        grow(path, stop=BATCH)
    body = body_of(path)
    state = body / "state.json" if body.is_dir() else body.with_name(f"{body.name}.json")
    good = json.loads(state.read_text())
    for broken in ("{", "[]", json.dumps(good | {"inputs": -4}), json.dumps(good | {"size": "1"})):
        state.write_text(broken)
        with pytest.raises(InputError, match=re.escape(state.name)):
            grow(path, resume=True)
    state.write_text(json.dumps(good | {"size": 10_000}))
    with pytest.raises(InputError, match=r"(is missing|is shorter than 10,000 bytes); remove"):
        grow(path, resume=True)
    state.unlink()
    grow(path, resume=True)
    assert path.read_bytes() == whole


def test_a_table_is_written_by_one_process(path):
    with open_table(path, COLUMNS, RUN, batch=BATCH), pytest.raises(InputError, match="another process is writing it"):
        grow(path, resume=True)


def test_what_is_not_a_body_is_refused_and_stays(path):
    body = body_of(path)
    if body.suffix == ".parts":
        body.write_text("mine")
    else:
        body.mkdir()
    with pytest.raises(InputError, match="is not what an interrupted run leaves"):
        grow(path, resume=True)
    assert body.exists()


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


@pytest.mark.parametrize("seed", range(4))
def test_a_table_whose_process_is_killed_again_and_again_ends_as_any_other(path, whole, seed):
    delays = random.Random(seed)
    kills = 0
    for _ in range(100):
        process = fork(path, resume=body_of(path).exists())
        time.sleep(delays.uniform(0, 0.06) * (1 + kills / 10))  # longer, in case this machine is busy
        os.kill(process, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0:
            break
        kills += 1
        if path.exists():  # killed between the two last steps
            break
    assert path.read_bytes() == whole and kills < 100
