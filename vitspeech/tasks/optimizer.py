"""The optimizer of a task: parameter groups, the learning rate schedule, and Muon in the precision of training.

timm's Muon always orthogonalizes its updates in bfloat16. A CPU without instructions for bfloat16 takes 20 to 30 times
as long for that as in single precision: a second or more for each step of a small network.
"""

import math
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Literal

import timm.optim
import torch
from timm.optim import muon as timm_muon
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

Decay = Literal["cosine", "linear", "constant", "inverse_sqrt"]
UNDECAYED = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)


def parameter_groups(network: nn.Module) -> list[dict]:
    """The trained parameters in up to three groups: hidden weights, output heads, and those without weight decay.

    Biases, norms, embeddings and what a module names in `no_weight_decay()` have no weight decay. As in timm, that
    method returns names of parameters relative to the module, with wildcards if needed. Position tables, the vector of
    the additive score and the temperature of the cosine score are such parameters. Output heads are the children `head`
    and `*_head` of the network, and what `get_classifier()` of a module returns, as in timm.

    Muon is meant for hidden weights, and its authors use AdamW for embeddings, output heads, norms and biases
    (https://kellerjordan.github.io/posts/muon/). So all groups but the first take its fallback (timm's key
    `use_fallback`), which is AdamW.
    """
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    plain = {id(parameter) for parameter in undecayed(network)}
    output = {id(parameter) for head in heads(network) for parameter in head.parameters()} - plain
    groups = [
        {"params": [p for p in trained if id(p) not in plain | output]},
        {"params": [p for p in trained if id(p) in output], "use_fallback": True},
        {"params": [p for p in trained if id(p) in plain], "weight_decay": 0.0, "use_fallback": True},
    ]
    return [group for group in groups if group["params"]]


def undecayed(network: nn.Module) -> Iterator[nn.Parameter]:
    """The parameters without weight decay; some more than once."""
    for module in network.modules():
        whole = isinstance(module, UNDECAYED)
        patterns = module.no_weight_decay() if hasattr(module, "no_weight_decay") else ()
        for name, parameter in module.named_parameters(recurse=bool(patterns)):
            named = name == "bias" or any(fnmatchcase(name, pattern) for pattern in patterns)
            if whole or named or parameter.ndim < 2:
                yield parameter


def heads(network: nn.Module) -> Iterator[nn.Module]:
    """The output heads of a network; some more than once."""
    for name, child in network.named_children():
        if name == "head" or name.endswith("_head"):
            yield child
    for module in network.modules():
        found = module.get_classifier() if hasattr(module, "get_classifier") else ()
        yield from (head for head in (found if isinstance(found, tuple) else (found,)) if isinstance(head, nn.Module))


def learning_rate(optimizer: Optimizer, *, steps: int, warmup_steps: int, decay: Decay = "cosine") -> LambdaLR:
    """Linear warm-up to the optimizer's learning rate, then decay to zero at the last step, or as √(warm-up / step).

    Args:
        optimizer: The optimizer whose learning rates are scheduled.
        steps: Number of optimizer steps of the run.
        warmup_steps: Number of steps until the full learning rate is reached.
        decay: `cosine` (Loshchilov and Hutter 2017, arXiv:1608.03983), `linear`, `constant`, or `inverse_sqrt` (Vaswani
            et al. 2017, arXiv:1706.03762, eq. 3, whose peak is the optimizer's learning rate).
    """
    shape: dict[str, Callable[[float], float]] = {
        "cosine": lambda done: 0.5 + 0.5 * math.cos(math.pi * done),
        "linear": lambda done: 1 - done,
        "constant": lambda done: 1.0,
    }

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        if decay == "inverse_sqrt":
            return math.sqrt(max(warmup_steps, 1) / (step + 1))
        return shape[decay](min((step - warmup_steps) / max(steps - warmup_steps, 1), 1.0))

    return LambdaLR(optimizer, factor)


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
