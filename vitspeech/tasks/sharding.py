"""Fully sharded data parallelism (FSDP2): each process holds a part of every weight, and of the optimizer's state."""

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

# The methods of networks and their blocks that are called besides `forward`.
METHODS = ("forward_frames", "encode", "forward_decoder", "forward_ctc", "start", "step")


def shard(network: nn.Module, mesh: DeviceMesh) -> None:
    """Divide the weights among the processes of a mesh; the blocks of a `ModuleList` are gathered one at a time.

    Args:
        network: The network.
        mesh: The processes, in one dimension.
    """
    for modules in [module for module in network.modules() if isinstance(module, nn.ModuleList)]:
        for block in modules:
            divide(block, mesh)
    divide(network, mesh)


def divide(module: nn.Module, mesh: DeviceMesh) -> None:
    """Divide the weights of a module; they are gathered for `forward` and for the other methods that compute."""
    fully_shard(module, mesh=mesh)
    for name in METHODS:
        if hasattr(module, name):
            register_fsdp_forward_method(module, name)


@torch.no_grad()
def whole_weights(network: nn.Module) -> dict[str, torch.Tensor]:
    """All weights and buffers of a network, gathered if they are divided; every process gets them."""
    return {
        name: value.full_tensor() if isinstance(value, DTensor) else value
        for name, value in network.state_dict().items()
    }


def is_sharded(network: nn.Module) -> bool:
    """Whether processes have divided the weights of a network."""
    return any(isinstance(parameter, DTensor) for parameter in network.parameters())
