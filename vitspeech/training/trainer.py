"""The trainer that configs describe."""

from typing import Any

import lightning
from lightning.pytorch.plugins.environments import SLURMEnvironment

from vitspeech.training.precision import PRECISIONS


class Trainer(lightning.Trainer):
    """Lightning's trainer, whose `precision` may be `auto` in a config; `fill_precision` replaces it.

    It does not requeue a job of SLURM by itself: Lightning saves checkpoints for that in the current folder, from
    which any later run there would start. A job that SLURM has requeued resumes its run, see `after_restart`.

    Args:
        precision: One of Lightning's, `32-true` by default; `auto` is `bf16-mixed` where the hardware is fast in
            it, else `32-true`.
    """

    def __init__(self, *args: Any, precision: PRECISIONS = None, **kwargs: Any) -> None:
        super().__init__(*args, precision=precision, **kwargs)
        environment = self._accelerator_connector.cluster_environment
        if isinstance(environment, SLURMEnvironment):
            environment.auto_requeue = False
