"""Tables of results that a command writes for many files, and resumes after an interruption."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from vitspeech.checkpoint.model import Model
from vitspeech.data.tables import Columns, GrowingTable, open_table
from vitspeech.inference.batches import Position


def open_results(
    path: Path,
    columns: Columns,
    model: Model,
    paths: Sequence[str],
    *,
    batch: int,
    resume: bool,
    **settings: str | float,
) -> GrowingTable:
    """The table of a command's results, which is resumed only with the same model, paths, batch and settings.

    Args:
        path: The table, CSV or Parquet.
        columns: Their names and formats.
        model: From `vitspeech.load`; known by the checksums on its card.
        paths: The files and folders that the user named.
        batch: Files per forward pass.
        resume: Go on with the table of an interrupted command.
        **settings: The command's name, the device, and what else changes the rows.

    Raises:
        InputError: As `GrowingTable`.
    """
    named = hashlib.sha256("\0".join(paths).encode(errors="surrogateescape")).hexdigest()
    sums = {"weights": model.card["sha256"], "model_config": model.card["config_sha256"], "paths": named}
    return open_table(path, columns, sums | {"batch": batch} | settings, batch=batch, resume=resume)


def stopped_at(table: GrowingTable) -> Position | None:
    """Where the interrupted command stopped that a table is resumed from; `None` at the start."""
    return Position(table.done, table.last) if table.done else None
