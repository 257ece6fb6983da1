"""Tables that grow row by row while their inputs are worked on, and can be resumed after an interruption.

Until it is whole, such a table is kept beside its place, where an older table stays until the end:

rows.csv.partial        the rows so far
rows.csv.partial.json   the state: what the rows are made from, the inputs done, and the size of the file then
rows.parquet.parts/     the same for Parquet: files with some of the rows each, and `state.json`
"""

import json
import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitspeech.data.locks import lock
from vitspeech.data.tables import Columns, Row
from vitspeech.documents import read_json
from vitspeech.errors import InputError
from vitspeech.writing import check_target, sync

STATE = {"run": dict, "inputs": int, "last": str, "unread": int, "size": int}


class GrowingTable:
    """A table to which the rows of one input after the other are added; a context that ends with the whole table.

    Rows are written after each batch of inputs. If the context ends with an error, or the process is killed, they stay
    beside the table's place and can be resumed; an error before the first whole batch leaves nothing.

    Args:
        path: The table.
        columns: Their names and formats; see `data.tables`.
        run: What the rows are made from: names with strings or numbers. They must be the same to resume.
        batch: Inputs whose rows are written together.
        resume: Go on with the rows that an interrupted run left.

    Attributes:
        done: Number of inputs whose rows are written: whole batches.
        last: The name of the last one of them.
        unread: Number of inputs that could not be read, of all that were added.
        body: Where the rows are until the table is whole.

    Raises:
        InputError: If there are rows of an interrupted run and `resume` is false, or there are none and it is true, or
            they are of another `run`, or another process is writing them.
    """

    ending = ".partial"  # of the body
    save_s = 1.0  # the state is saved again after that many seconds: so much work is lost at most
    is_body = staticmethod(stat.S_ISREG)

    def __init__(
        self, path: Path, columns: Columns, run: Mapping[str, Any], *, batch: int, resume: bool = False
    ) -> None:
        self.path, self.columns, self.run, self.batch = path, columns, dict(run), batch
        self.target = check_target(path)
        self.body = self.target.with_name(self.target.name + self.ending)
        self.rows: list[Row] = []  # of a batch that is not whole
        self.added, self.unread, self.saved_s = 0, 0, time.monotonic()
        self.done, self.last, self.done_unread, self.size = 0, "", 0, 0
        self.file: int | None = None
        self.writing = False  # while the rows and `done` may not fit each other
        if os.path.lexists(self.body) != resume:
            raise InputError(
                f"{self.body}: does not exist, so there is nothing to resume; leave out --resume"
                if resume
                else f"{self.body}: was left by an interrupted run; go on with --resume, or remove it to start over"
            )
        try:
            if not resume:
                self.state.unlink(missing_ok=True)
                self.create()
            self.open()
            if self.state.exists():
                self.read_state()
                self.cut()
            else:  # also of a run that was killed before it had one
                self.clear()
                self.save()
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> Path:
        """The file with the state."""
        return self.body.with_name(f"{self.body.name}.json")

    def add(self, name: object, rows: Sequence[Row], *, unread: bool = False) -> None:
        """Add the rows of the next input.

        Args:
            name: The input's name, such as that of a file.
            rows: Its rows.
            unread: Whether it could not be read.
        """
        self.rows += rows
        self.added += 1
        self.unread += unread
        if self.added % self.batch == 0:
            self.writing = True
            self.write()
            self.done, self.last, self.done_unread = self.added, str(name), self.unread
            if self.is_due():
                self.save()
            self.writing = False

    def __enter__(self) -> "GrowingTable":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, _: object) -> None:
        try:
            if error is None:
                self.write()
                self.sync()
                self.finish()
            if error is None or not self.done:
                self.remove()
            elif not self.writing:  # otherwise, the state that was saved before is the right one
                self.save()
        finally:
            self.close()
        if kind is KeyboardInterrupt and self.done:
            raise KeyboardInterrupt(f"{self.body} has the rows of {self.done:,} inputs; go on with --resume") from None

    def open(self) -> None:
        """Open the body, and exclude other processes until it is closed.

        Raises:
            InputError: If another process has it open, or it is not what a run leaves.
        """
        if not self.is_body(os.lstat(self.body).st_mode):
            raise InputError(f"{self.body}: is not what an interrupted run leaves; rename or remove it")
        self.file = os.open(self.body, os.O_NOFOLLOW | (os.O_RDONLY if self.body.is_dir() else os.O_RDWR))
        lock(self.file, self.body)

    def close(self) -> None:
        """Close the body."""
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def is_due(self) -> bool:
        """Whether it is time to save the state."""
        return time.monotonic() - self.saved_s >= self.save_s

    def save(self) -> None:
        """Write the state, after the rows are on the disk."""
        self.sync()
        done = {"inputs": self.done, "last": self.last, "unread": self.done_unread, "size": self.size}
        draft = self.state.with_name(f"{self.state.name}.new")
        draft.write_text(json.dumps({"run": self.run} | done, indent=2) + "\n")
        sync(draft)
        os.replace(draft, self.state)
        self.saved_s = time.monotonic()

    def read_state(self) -> None:
        """Take over the state of an interrupted run.

        Raises:
            InputError: If it is broken, or that of another run.
        """
        state = read_json(self.state)
        sound = isinstance(state, dict) and all(isinstance(state.get(key), kind) for key, kind in STATE.items())
        if not sound or min(state["inputs"], state["unread"], state["size"]) < 0:
            raise InputError(f"{self.state}: is not the state of an interrupted run; remove {self.body} to start over")
        for name in {**self.run, **state["run"]}:
            was, now = state["run"].get(name), self.run.get(name)
            if was != now:
                change = f"{name} was {was}, and is {now} now" if len(f"{was}{now}") < 60 else f"{name} was another"
                raise InputError(
                    f"{self.body}: cannot be resumed: {change}; repeat the command as it was, or remove the file to "
                    "start over"
                )
        self.done = self.added = state["inputs"]
        self.unread = self.done_unread = state["unread"]
        self.last, self.size = state["last"], state["size"]

    def create(self) -> None:
        """Create the body."""
        raise NotImplementedError

    def clear(self) -> None:
        """Make of it a body without rows."""
        raise NotImplementedError

    def cut(self) -> None:
        """Remove from the body what was written after the state was saved.

        Raises:
            InputError: If something is missing.
        """
        raise NotImplementedError

    def write(self) -> None:
        """Write `rows`, which are those of a whole batch or the last ones, and empty it."""
        raise NotImplementedError

    def sync(self) -> None:
        """Wait until what was written is on the disk; `size` is its size."""
        raise NotImplementedError

    def finish(self) -> None:
        """Put the whole table in its place."""
        raise NotImplementedError

    def remove(self) -> None:
        """Remove the body and the state."""
        self.body.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)
