"""Networks before training: data-dependent initialization, and residual branches that start multiplied by zero.

Many networks multiply each residual branch by zero, or by a constant next to zero, when they are initialized: batch
norms of weight 0 (`zero_init_last`; Goyal et al. 2017, arXiv:1706.02677, sec. 5.1), a scalar gain (SkipInit; De and
Smith 2020, arXiv:2002.10444; ReZero; Bachlechner et al. 2020, arXiv:2003.04887) or a gain per channel (LayerScale;
Touvron et al. 2021, arXiv:2103.17239, eq. 4). Their gradient at initialization is that of the shortcuts alone, so the
effective receptive field of such a network is that of its downsampling. The first training steps change this.
`switch_on_branches` therefore replaces these multipliers before the field is measured. It finds them in the autograd
graph, not by the names of modules.
"""

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from vitspeech.receptive.fields.graph import backward_order, inputs_of, node_of, reachable
from vitspeech.receptive.fields.layers import INPUT, Layer, record_outputs

SEED = 0  # for weights that are drawn anew
BATCH_VALUES = 2**22  # of all inputs in a pass
# LayerScale starts at 1e-6 to 1e-4 in deep networks (ConvNeXt, CaiT, DINOv2); 0.1 in BEiT is no obstacle to gradients.
NEARLY_ZERO = 1e-3
# Inputs of an operation, as autograd counts them, that may be its factor; the others are data or a bias.
FACTORS = {
    "MulBackward": (0, 1),
    "MmBackward": (0, 1),
    "AddmmBackward": (2,),
    "ConvolutionBackward": (1,),
    "NativeBatchNormBackward": (1,),
    "CudnnBatchNormBackward": (1,),
    "NativeLayerNormBackward": (1,),
    "NativeGroupNormBackward": (1,),
}
# Between a parameter and the operation that multiplies by it; the batch norm is that of standardized convolutions.
VIEWS = ("View", "Reshape", "Unsqueeze", "Squeeze", "Expand", "TBackward", "Transpose", "Permute", "NativeBatchNorm")


@torch.no_grad()
def initialize_from(network: nn.Module, inputs: Tensor) -> None:
    """Set what depends on data in an untrained network: its own `initialize`, and the statistics of batch norms."""
    if hasattr(network, "initialize"):
        network.initialize(inputs)
    estimate_statistics(network, inputs)


@torch.no_grad()
def estimate_statistics(network: nn.Module, inputs: Tensor) -> None:
    """Set the running statistics of batch norms to those of the inputs, of large ones to the mean over batches."""
    norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    if not norms:
        return
    for norm in norms:
        norm.reset_running_stats()
        norm.train().momentum = None  # the mean over batches
    for batch in inputs.tensor_split(max(min(-(-inputs.numel() // BATCH_VALUES), len(inputs) // 2), 1)):
        network(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval().momentum = momentum


@torch.no_grad()
def switch_on_branches(network: nn.Module, inputs: Tensor, source: Layer) -> str | None:
    """Replace the multipliers of residual branches that are (nearly) zero at initialization, in place.

    Weights of norms and gains become 1. Weights of convolutions and linear layers are drawn as PyTorch does by default.
    The statistics of batch norms are then estimated again.

    Args:
        network: Untrained, in evaluation mode, its parameters without gradients.
        inputs: What it takes (B, …).
        source: Where gradients end: the input, or the log-mel frames.

    Returns:
        A note that says what was replaced; `None` if there was nothing to replace.
    """
    names = zero_multipliers(network, inputs, source)
    if not names:
        return None
    parameters = dict(network.named_parameters())
    largest = f"{max(float(parameters[name].abs().max()) for name in names):.0e}"
    change, generator = "set to 1", torch.Generator().manual_seed(SEED)
    for name in names:
        owner = network.get_submodule(name.rpartition(".")[0])
        if isinstance(owner, (nn.modules.conv._ConvNd, nn.Linear)) and parameters[name] is owner.weight:
            drawn = torch.empty_like(parameters[name], device="cpu")  # the same on every device
            parameters[name].copy_(nn.init.kaiming_uniform_(drawn, a=5**0.5, generator=generator))
            change = "default initialization"
        else:
            parameters[name].fill_(1.0)
    estimate_statistics(network, inputs)
    return (
        f"residual branches are multiplied by {'0' if largest == '0e+00' else f'at most {largest}'} at initialization "
        f"({kinds(network, names)}); measured with them switched on ({change})"
    )


def kinds(network: nn.Module, names: Iterable[str]) -> str:
    """Parameters counted by class and attribute: "8 × BatchNorm2d.weight"."""
    split = [name.rpartition(".") for name in names]
    counts = Counter(f"{type(network.get_submodule(owner)).__name__}.{attribute}" for owner, _, attribute in split)
    return ", ".join(f"{count} × {kind}" for kind, count in counts.items())


def zero_multipliers(network: nn.Module, inputs: Tensor, source: Layer) -> list[str]:
    """Names of the parameters that multiply a whole residual branch by a value below `NEARLY_ZERO`.

    A residual branch is one of two inputs of an addition that both depend on the source. Its multipliers are returned
    if every path from the branch to the source passes one of them, and some path from the other input passes none.
    A zero head, which no addition follows, and zero biases are thus unchanged.
    """
    network.requires_grad_(True)
    try:
        with record_outputs(network, [source.name]) as outputs, torch.enable_grad():
            part = inputs[:2].detach().requires_grad_()
            output = network(part)
            output = output[0] if isinstance(output, tuple) else output  # log-probabilities, lengths
            origin = node_of(part if source.name == INPUT else outputs[source.name])
    finally:
        network.requires_grad_(False)
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    order = backward_order(node_of(output), origin)
    data = set(order)
    factors = {node: zero_factor(node, names, data) for node in order}
    multipliers = {node: parameter for node, parameter in factors.items() if parameter is not None}
    found: dict[str, None] = {}
    while True:  # a branch may hold several multipliers in a row
        blocked = blocked_branches(order, origin, multipliers)
        removable = {node for branch in blocked for node in first_multipliers(branch, multipliers)}
        if not removable:
            return [name for name in names.values() if name in found]
        for node in removable:
            found[names[id(multipliers.pop(node))]] = None


def zero_factor(node: Node, names: dict[int, str], data: set[Node]) -> Tensor | None:
    """The nearly zero parameter by which an operation multiplies its input, if there is one.

    `names` are those of the network's parameters by their ids, `data` the nodes that depend on the network's input.
    """
    inputs = inputs_of(node)
    slots = next((slots for name, slots in FACTORS.items() if node.name().startswith(name)), ())
    factors = (inputs[slot] for slot in slots if slot < len(inputs))
    parameters = (zero_parameter(factor, names, data) for factor in factors if factor is not None)
    return next((parameter for parameter in parameters if parameter is not None), None)


def zero_parameter(factor: Node, names: dict[int, str], data: set[Node]) -> Tensor | None:
    """The nearly zero parameter that a factor is a view of, or that it is multiplied by in turn."""
    if factor in data:
        return None
    parameter = getattr(factor, "variable", None)
    if id(parameter) in names:
        return parameter if parameter.detach().abs().max() < NEARLY_ZERO else None
    parameter = zero_factor(factor, names, data)
    if parameter is None and factor.name().startswith(VIEWS):
        return zero_parameter(inputs_of(factor)[0], names, data)
    return parameter


def blocked_branches(order: list[Node], origin: Node, multipliers: dict[Node, Tensor]) -> list[Node]:
    """Branches of additions that reach the origin only through a multiplier, while the other branch is open."""
    is_open: dict[Node, bool] = {}
    for node in reversed(order):
        is_open[node] = node is origin or (
            node not in multipliers and any(is_open.get(taken, False) for taken in inputs_of(node))
        )
    blocked = []
    for node in order:
        branches = inputs_of(node) if node.name().startswith("AddBackward") and node is not origin else []
        if len(branches) == 2 and all(branch in is_open for branch in branches):
            blocked += [branch for branch in branches if not is_open[branch] and is_open[node]]
    return blocked


def first_multipliers(branch: Node, multipliers: dict[Node, Tensor]) -> set[Node]:
    """The multipliers that the paths from a branch towards the origin meet first."""
    return multipliers.keys() & reachable(branch, lambda node: [] if node in multipliers else inputs_of(node))
