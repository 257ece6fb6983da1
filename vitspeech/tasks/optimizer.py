"""Parameter groups for weight decay, and the learning rate schedule."""

import math
from collections.abc import Callable
from typing import Literal

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

Decay = Literal["cosine", "linear", "constant"]


def parameter_groups(network: nn.Module) -> list[dict]:
    """The trained parameters in two groups: matrices and kernels with weight decay, all others without.

    Norms, biases, class tokens and position tables have no weight decay. Muon's orthogonalization is meant for weight
    matrices, so these parameters also take its fallback optimizer (timm's key `use_fallback`).
    """
    tables = {id(m.table) for m in network.modules() if isinstance(getattr(m, "table", None), nn.Parameter)}
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.ndim > 1 and id(parameter) not in tables]
    decayed_ids = {id(parameter) for parameter in decayed}
    plain = [parameter for parameter in trained if id(parameter) not in decayed_ids]
    groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0, "use_fallback": True}]
    return [group for group in groups if group["params"]]


def learning_rate(optimizer: Optimizer, *, steps: int, warmup_steps: int, decay: Decay = "cosine") -> LambdaLR:
    """Linear warm-up to the optimizer's learning rate, then decay to zero at the last step.

    Args:
        optimizer: The optimizer whose learning rates are scheduled.
        steps: Number of optimizer steps of the run.
        warmup_steps: Number of steps until the full learning rate is reached.
        decay: `cosine` (Loshchilov and Hutter 2017, arXiv:1608.03983), `linear`, or `constant`.

    Raises:
        ValueError: If the warm-up is longer than the run.
    """
    if not 0 <= warmup_steps <= steps:
        raise ValueError(f"a warm-up of {warmup_steps} steps does not fit a run of {steps}")
    shape: dict[str, Callable[[float], float]] = {
        "cosine": lambda done: 0.5 + 0.5 * math.cos(math.pi * done),
        "linear": lambda done: 1 - done,
        "constant": lambda done: 1.0,
    }

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        return shape[decay](min((step - warmup_steps) / max(steps - warmup_steps, 1), 1.0))

    return LambdaLR(optimizer, factor)
