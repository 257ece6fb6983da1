"""The progress of training: bars in a terminal, otherwise one line per epoch."""

import sys
import time
from datetime import timedelta

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import TQDMProgressBar


class Progress(TQDMProgressBar):
    """Shows epoch, loss, the validation metric, and the time remaining of the whole run.

    The remaining time assumes that the remaining steps take as long as those since this start, with validation.

    Args:
        lines: Print one line per epoch instead of bars; `None` does so unless standard output is a terminal.
    """

    BAR_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}, {rate_noinv_fmt}{postfix}]"  # without the epoch's rest

    def __init__(self, lines: bool | None = None) -> None:
        self.lines = not sys.stdout.isatty() if lines is None else lines
        super().__init__(refresh_rate=0 if self.lines else 1)  # 0: no bars
        self.validated = False
        self.started, self.first_step = 0.0, 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self.started, self.first_step = time.monotonic(), trainer.global_step
        if trainer.fit_loop.restarted_mid_epoch:
            self.on_train_epoch_start(trainer, pl_module)  # which Lightning leaves out

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_epoch_start(trainer, pl_module)
        self.train_progress_bar.set_description(self.epoch(trainer))
        self.validated = False

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_end(trainer, pl_module)
        self.validated = not trainer.sanity_checking

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        if self.lines and trainer.is_global_zero:
            names = ["train_loss_epoch", *([pl_module.monitor] if self.validated else [])]
            metrics = trainer.callback_metrics
            shown = [f"{name.removesuffix('_epoch')} {metrics[name]:.4g}, " for name in names if name in metrics]
            print(f"{self.epoch(trainer)}: {''.join(shown)}{self.remaining(trainer)} left", flush=True)

    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, int | str | float]:
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)  # the number of the folder of logs
        return metrics | {"left": self.remaining(trainer)}

    @staticmethod
    def epoch(trainer: Trainer) -> str:
        """The number of the epoch, from 1."""
        of = f" of {trainer.max_epochs}" if (trainer.max_epochs or -1) > 0 else ""
        return f"epoch {trainer.current_epoch + 1}{of}"

    def remaining(self, trainer: Trainer) -> str:
        """The time until the end of training as `1:23:45`; `?` if it is not known."""
        done, total = trainer.global_step - self.first_step, trainer.estimated_stepping_batches
        if not self.started or done <= 0 or total == float("inf"):
            return "?"
        seconds = (time.monotonic() - self.started) / done * max(total - trainer.global_step, 0)
        return str(timedelta(seconds=round(seconds)))
