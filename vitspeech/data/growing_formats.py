"""Tables that grow, as CSV and as Parquet."""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitspeech.data.growing import GrowingTable
from vitspeech.data.tables import GROUP_ROWS, PARQUET, Columns, Row, formatted, to_arrow, to_csv, write_parquet
from vitspeech.errors import InputError
from vitspeech.writing import replacing, sync


class GrowingCsv(GrowingTable):
    """CSV: the body is a file, which becomes the table."""

    def create(self) -> None:
        self.body.open("xb").close()

    def clear(self) -> None:
        os.ftruncate(self.file, 0)
        self.size = os.pwrite(self.file, to_csv([self.columns]), 0)

    def cut(self) -> None:
        if os.fstat(self.file).st_size < self.size:
            raise InputError(f"{self.body}: is shorter than {self.size:,} bytes; remove it to start over")
        os.ftruncate(self.file, self.size)

    def write(self) -> None:
        lines, end = to_csv(formatted(self.columns, row) for row in self.rows), self.size
        while lines:
            written = os.pwrite(self.file, lines, end)
            end, lines = end + written, lines[written:]
        self.size = end
        self.rows.clear()

    def sync(self) -> None:
        os.fsync(self.file)

    def finish(self) -> None:
        if self.target.exists():
            os.fchmod(self.file, stat.S_IMODE(self.target.stat().st_mode))
        os.replace(self.body, self.target)


class GrowingParquet(GrowingTable):
    """Parquet: the body is a folder of files, which are joined at the end."""

    ending = ".parts"
    save_s = 10.0  # a file each
    is_body = staticmethod(stat.S_ISDIR)

    def __init__(self, path: Path, columns: Columns, run: Mapping[str, Any], **options: Any) -> None:
        self.waiting: list[Row] = []  # for the next file
        super().__init__(path, columns, run, **options)

    @property
    def state(self) -> Path:
        return self.body / "state.json"

    def part(self, number: int) -> Path:
        """One of the files."""
        return self.body / f"{number:06}.parquet"

    def create(self) -> None:
        self.body.mkdir()

    def clear(self) -> None:
        self.size = 0

    def cut(self) -> None:
        missing = [part for part in map(self.part, range(self.size)) if not part.is_file()]
        if missing:
            raise InputError(f"{missing[0]}: is missing; remove {self.body} to start over")

    def write(self) -> None:
        self.waiting += self.rows
        self.rows.clear()

    def is_due(self) -> bool:
        return len(self.waiting) >= GROUP_ROWS or super().is_due()

    def sync(self) -> None:
        if self.waiting:
            write_parquet(self.part(self.size), self.columns, [to_arrow(self.columns, self.waiting)])
            sync(self.part(self.size))
            self.size += 1
            self.waiting.clear()

    def finish(self) -> None:
        from pyarrow import parquet

        with replacing(self.target) as draft:
            parts = map(self.part, range(self.size))
            write_parquet(draft, self.columns, (parquet.read_table(part, use_threads=False) for part in parts))

    def remove(self) -> None:
        self.state.unlink(missing_ok=True)  # first: without it, a body is one without rows
        shutil.rmtree(self.body, ignore_errors=True)


def open_table(
    path: Path, columns: Columns, run: Mapping[str, Any], *, batch: int, resume: bool = False
) -> GrowingTable:
    """A table that grows: Parquet if the name ends with `.parquet`, else CSV; see `GrowingTable`."""
    kind = GrowingParquet if path.suffix.lower() == PARQUET else GrowingCsv
    return kind(path, columns, run, batch=batch, resume=resume)
