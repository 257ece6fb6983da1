"""Kernels as a compiled network calls them: `torch.compile` leaves them out of its graph.

They are in a file of their own because importing it imports torch's compiler, which takes as long as torch itself.
"""

import torch
from torch import Tensor

from vitspeech.attention.windowed import pairwise
from vitspeech.attention.windowed.blockwise import Blockwise, Window

attend_pairwise = torch.compiler.disable(pairwise.attend)  # a graph of all blocks takes long to compile


@torch.compiler.disable
def attend_blockwise(*arguments: Tensor | Window | None) -> Tensor:
    """`Blockwise`, which reuses buffers: a traced graph must not do that."""
    return Blockwise.apply(*arguments)
