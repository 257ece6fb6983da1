"""Muon in the precision of training.

timm's Muon always orthogonalizes its updates in bfloat16. A CPU without instructions for bfloat16 takes 20 to 30 times
as long for that as in single precision: a second or more for each step of a small network.
"""

from collections.abc import Callable
from typing import Any

import timm.optim
import torch
from timm.optim import muon as timm_muon
from torch import Tensor
from torch.optim import Optimizer


class Muon(timm.optim.Muon):
    """timm's Muon, whose Newton-Schulz iterations (https://kellerjordan.github.io/posts/muon/) keep the data type.

    It has the name of timm's class, because Lightning logs the name.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step. timm has no argument for the data type, so its function is replaced until the step is done."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        in_bfloat16 = timm_muon.zeropower_via_newtonschulz

        def in_own_type(gradient: Tensor, *args: Any, **options: Any) -> Tensor:
            return in_bfloat16(gradient, *args, **options, dtype=gradient.dtype)

        timm_muon.zeropower_via_newtonschulz = in_own_type
        try:
            super().step()
        finally:
            timm_muon.zeropower_via_newtonschulz = in_bfloat16
        return loss

    step.hooked = True  # torch calls the hooks of a step in timm's


def match_precision(optimizer: Optimizer, precision: str) -> None:
    """Let timm's Muon orthogonalize in the precision of training if that is single or double precision.

    It must be called before anything that keeps the optimizer's `step`, such as a learning rate schedule.

    Args:
        optimizer: The optimizer, changed in place; others than timm's Muon stay as they are.
        precision: The trainer's, such as `32-true`.
    """
    if type(optimizer) is timm.optim.Muon and precision in ("32-true", "64-true"):
        optimizer.__class__ = Muon
