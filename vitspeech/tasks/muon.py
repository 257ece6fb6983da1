"""Muon in single precision.

timm's Muon orthogonalizes its updates in bfloat16, in whatever precision the network is trained. A CPU without
instructions for bfloat16 needs about 20 times as long for that as in single precision: a second for each step of a
small network.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import timm.optim
import torch
from timm.optim import muon
from torch.optim import Optimizer


class Muon(timm.optim.Muon):
    """timm's Muon, whose Newton-Schulz iterations (https://kellerjordan.github.io/posts/muon/) run in float32.

    Its name is that of timm's class, which Lightning logs.
    """

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; timm has no argument for the data type, so its function is replaced meanwhile."""
        in_bfloat16 = muon.zeropower_via_newtonschulz
        muon.zeropower_via_newtonschulz = partial(in_bfloat16, dtype=torch.float32)
        try:
            return super().step(closure)
        finally:
            muon.zeropower_via_newtonschulz = in_bfloat16


def use_precision(optimizer: Optimizer, precision: str) -> None:
    """Let timm's Muon compute in single precision if the training does; other optimizers stay as they are.

    Args:
        optimizer: The optimizer, changed in place.
        precision: The trainer's, such as `32-true`.
    """
    if type(optimizer) is timm.optim.Muon and precision == "32-true":
        optimizer.__class__ = Muon
