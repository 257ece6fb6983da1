"""Which parameters decay, and how the learning rate moves through a run."""

import math
from collections.abc import Callable
from typing import Literal

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

Decay = Literal["cosine", "linear", "constant"]


def parameter_groups(network: nn.Module) -> list[dict]:
    """Trained parameters in two groups: matrices and kernels decay as the optimizer says, the rest does not.

    Norms, biases, class tokens and position tables stay out of weight decay, and out of Muon's
    orthogonalization, which means a matrix by a matrix (`use_fallback` is timm's word for that).
    """
    tables = {id(m.table) for m in network.modules() if isinstance(getattr(m, "table", None), nn.Parameter)}
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if parameter.ndim > 1 and id(parameter) not in tables]
    chosen = {id(parameter) for parameter in decayed}
    plain = [parameter for parameter in trained if id(parameter) not in chosen]
    groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0, "use_fallback": True}]
    return [group for group in groups if group["params"]]


def learning_rate(optimizer: Optimizer, *, steps: int, warmup_steps: int, decay: Decay = "cosine") -> LambdaLR:
    """Linear warm-up to the optimizer's learning rate, then decay to zero at the last step.

    Args:
        optimizer: Whose learning rates move.
        steps: Optimizer steps of the whole run.
        warmup_steps: Steps until the full learning rate is reached.
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
