"""RUN/metrics.csv: losses, metrics and learning rates of a run, one row for each step at which something was logged.

The log belongs to the checkpoint: each checkpoint holds the rows up to its step, and a resumed run continues from them.
So the log of an interrupted run equals that of an uninterrupted one.
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from vitspeech.data.files import write_text
from vitspeech.errors import InputError

METRICS = "metrics.csv"
FIRST = ["epoch", "step"]  # the first columns; the others follow in alphabetical order


class MetricsLog(Logger):
    """Collects the rows in the first process. The file is written after each checkpoint and at the end of training.

    Args:
        path: The file.
    """

    name, version = "metrics", None

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.rows: dict[int, dict[str, str]] = {}  # by step

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Tensor | float], step: int | None = None) -> None:
        """Add values to the row of a step."""
        values = {name: str(value.item() if isinstance(value, Tensor) else value) for name, value in metrics.items()}
        self.rows.setdefault(step, {}).update(values | {"step": str(step)})

    def log_epoch(self, trainer: Trainer) -> None:
        """Log the means of a training epoch before its checkpoint is written.

        Lightning logs them only after it; the row then stays as it is.
        """
        values = trainer._logger_connector.metrics["log"]  # reduced over all devices, so every process takes part
        if values:
            step = trainer.fit_loop.epoch_loop._batches_that_stepped - 1
            self.log_metrics({"epoch": trainer.current_epoch, **values}, step)

    def log_step(self, trainer: Trainer) -> None:
        """Log a training step before the checkpoint that follows it is written; Lightning logs it only after it."""
        connector = trainer._logger_connector
        if connector.should_update_logs and connector.metrics["log"]:
            step = trainer.fit_loop.epoch_loop._batches_that_stepped
            self.log_metrics({"epoch": trainer.current_epoch, **connector.metrics["log"]}, step)

    def text(self) -> str:
        """The table as CSV; empty without rows."""
        if not self.rows:
            return ""
        names = {name for row in self.rows.values() for name in row}
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, FIRST + sorted(names - {*FIRST}), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows.values())
        return text.getvalue()

    def restore(self, text: str) -> None:
        """Replace all rows by those of a checkpoint.

        Raises:
            InputError: If the text is not such a table.
        """
        self.rows = {
            int(row["step"]): {name: value for name, value in row.items() if value} for row in read_metrics(text)
        }

    @rank_zero_only
    def write(self) -> None:
        """Write the file."""
        if self.rows:
            write_text(self.text(), self.path)

    def after_save_checkpoint(self, checkpoint_callback: ModelCheckpoint) -> None:
        self.write()

    def finalize(self, status: str) -> None:
        """Write the file when training ends, also because of an error."""
        self.write()

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; config.yaml has them."""


def read_metrics(text: str) -> list[dict[str, str]]:
    """The rows of a `metrics.csv`; a field without a value is empty.

    Raises:
        InputError: If the text is not such a table of numbers.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise InputError(f"not a table: {error}") from None
    for row in rows:
        try:
            if list(row)[:2] != FIRST or None in row:
                raise ValueError
            int(row["step"]), int(row["epoch"] or 0), [float(value or 0) for value in row.values()]
        except (TypeError, ValueError):
            raise InputError("not a table of numbers with the columns epoch and step") from None
    return rows
