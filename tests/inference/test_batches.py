"""Files in batches: read ahead in threads, in order, and only as many as are needed; tables that go on."""

import itertools
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import vitspeech
from vitspeech.errors import InputError
from vitspeech.inference.batches import BATCHES_AHEAD, Position, run_in_batches, write_results

BATCH = 4


def numbered(count=None):
    """The files 0, 1, …"""
    numbers = itertools.count() if count is None else range(count)
    return (Path(str(number)) for number in numbers)


def number_of(path):
    return torch.tensor(int(path.name))


def with_batch(files, inputs):
    """Each file's number, and the numbers in its batch."""
    numbers = [int(number) for number in inputs]
    assert numbers == [int(file.name) for file in files]
    return [(number, numbers) for number in numbers]


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 1, 2 * BATCH, 5 * BATCH - 1])
def test_every_file_has_its_result_in_order_and_batches_are_full(count):
    results = list(run_in_batches(numbered(count), number_of, with_batch, batch=BATCH))
    batches = [list(range(start, min(start + BATCH, count))) for start in range(0, count, BATCH)]
    assert results == [(Path(str(number)), (number, batch)) for batch in batches for number in batch]


def test_of_endless_files_only_a_few_batches_are_read():
    read = []
    results = run_in_batches(numbered(), lambda file: read.append(file) or number_of(file), with_batch, batch=BATCH)
    assert [int(file.name) for file, _ in itertools.islice(results, 3 * BATCH)] == list(range(3 * BATCH))
    results.close()
    assert len(read) <= (3 + BATCHES_AHEAD) * BATCH


def test_the_next_files_are_read_while_the_network_runs():
    is_read = threading.Event()

    def read(file):
        if int(file.name) == BATCH:
            is_read.set()
        return number_of(file)

    def run(files, inputs):
        assert is_read.wait(10)
        return inputs

    assert len(list(run_in_batches(numbered(BATCH + 1), read, run, batch=BATCH))) == BATCH + 1


def test_an_error_is_raised_before_the_results_of_its_batch_and_ends_the_reading():
    read = []

    def broken(file):
        read.append(file)
        if file.name == "5":
            raise ValueError("5: broken")
        return number_of(file)

    results = run_in_batches(numbered(), broken, with_batch, batch=BATCH)
    assert [next(results)[0].name for _ in range(BATCH)] == list("0123")
    with pytest.raises(ValueError, match="5: broken"):
        next(results)
    assert len(read) <= (2 + BATCHES_AHEAD) * BATCH


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_run_goes_on_after_a_position_with_the_same_batches(batches):
    whole = list(run_in_batches(numbered(14), number_of, with_batch, batch=BATCH))
    after = Position(batches * BATCH, str(batches * BATCH - 1))
    assert list(run_in_batches(numbered(14), number_of, with_batch, batch=BATCH, after=after)) == whole[after.count :]


@pytest.mark.parametrize("after", [Position(8, "8"), Position(16, "13")])
def test_files_that_have_changed_before_the_position_are_refused(after):
    with pytest.raises(InputError, match=f"^{after.last}: is no longer file {after.count} of those named"):
        next(run_in_batches(numbered(14), number_of, with_batch, batch=BATCH, after=after))


def test_the_progress_bar_has_a_total_once_all_files_are_found(capsys):
    totals = []
    for _ in run_in_batches(numbered(5 * BATCH), number_of, with_batch, batch=BATCH, progress=True):
        totals.append("/20" in capsys.readouterr().err.rpartition("\r")[2])
    assert not totals[0] and any(totals)
    capsys.readouterr()
    list(run_in_batches(numbered(BATCH), number_of, with_batch, batch=BATCH, progress=True))
    assert capsys.readouterr().err == ""


@pytest.fixture
def write(finished_run, tmp_path):
    """Writes a table of endless files in batches of two, each time up to a third file and an error."""
    model, positions = vitspeech.load(finished_run), []

    def results(on_error, after):
        positions.append(after)
        yield from ((name, None) for name in ("a.png", "b.png", "c.png"))
        raise RuntimeError

    def write(*, resume=True, paths=("pictures",), card=None, top=3):
        given = (tmp_path / "rows.csv", {"file": "", "status": ""}, lambda file, _: [(file, "ok")], results)
        changed = replace(model, card=model.card | (card or {}))
        write_results(*given, changed, paths, command="predict", batch=2, resume=resume, device="cpu", top=top)

    write.positions = positions
    with pytest.raises(RuntimeError):
        write(resume=False)
    return write


def test_a_table_goes_on_after_the_last_whole_batch(write):
    with pytest.raises(RuntimeError):
        write()
    assert write.positions == [None, Position(2, "b.png")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"top": 1}, "top was 3, and is 1 now"),
        ({"paths": ("pict", "ures")}, "paths was another"),
        ({"card": {"sha256": "0" * 64}}, "weights was another"),
        ({"card": {"config_sha256": "0" * 64}}, "model_config was another"),
    ],
)
def test_a_table_of_another_model_or_other_options_is_refused(write, change, message):
    with pytest.raises(InputError, match=f"cannot be resumed: {message}"):
        write(**change)
