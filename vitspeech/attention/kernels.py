"""Which kernel computes an attention: `choose_kernel` decides for all of `vitspeech.attention`.

All kernels compute the same function; they differ in speed, in memory, and in what they support.
"""

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from vitspeech.attention.positions import RelativePositions
from vitspeech.attention.scores import Score
from vitspeech.attention.windowed.blocks import BLOCK

# In half precision on CPU the explicit product is faster below this many keys, because the fused kernel has no fast
# half precision products there. In single precision the fused kernel is faster or ties at every length. Measured at
# 16 to 1,024 tokens on two CPU cores, forward and backward.
HALF_FUSED_FROM_KEYS = 1024

# From this many keys on, causal attention with an unlimited past uses the fused kernel; on CUDA it always does. Set to
# the bound above; the crossover was not measured.
CAUSAL_FUSED_FROM_KEYS = 1024

# Up to this many keys, T x T scores are stored if the window is about as long as the sequence or unlimited, and the
# fused kernels do not apply; beyond, blocks compute it. Set to the first bound; the crossover was not measured.
EXPLICIT_UP_TO_KEYS = 1024

# The head width from which on the compiled block-sparse kernel has matrix products: its requirement, no measurement.
FLEX_FROM_WIDTH = 16

HALF = (torch.bfloat16, torch.float16)


class Kernel(Enum):
    """The ways to compute attention.

    Attributes:
        EXPLICIT: Scores, weights and their product written out, with a mask (`dense.attend`).
        FUSED: `torch.nn.functional.scaled_dot_product_attention` (`dense.attend_fused`).
        FUSED_CAUSAL: The same with `is_causal`, which needs no mask.
        BLOCKWISE: Blocks of queries with the keys of their windows (`windowed.blockwise`).
        FLEX: PyTorch's compiled block-sparse `flex_attention` (`windowed.flex`).
        PAIRWISE: A vector for each pair, a block of queries at a time (`windowed.pairwise`).
    """

    EXPLICIT = "explicit"
    FUSED = "fused"
    FUSED_CAUSAL = "fused causal"
    BLOCKWISE = "blockwise"
    FLEX = "flex"
    PAIRWISE = "pairwise"


@dataclass(frozen=True)
class Request:
    """What the choice of a kernel depends on.

    Args:
        keys: Number of keys S.
        width: Head width K; of keys and values, the smaller.
        device: Device type: `cpu`, `cuda`, ….
        dtype: Of the values.
        dot_product: Whether the score compares by dot products rather than by v·tanh(q + k).
        softmax: Whether the normalizer is softmax.
        relative: Whether there are relative positions.
        linear: Whether the score is linear in the key.
        dropout: Whether attention weights are dropped.
        window: Past context and look-ahead in tokens, each `None` for unlimited; `None` for full attention.
        padding: Whether there is a padding mask.
    """

    keys: int
    width: int = 64
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    dot_product: bool = True
    softmax: bool = True
    relative: bool = False
    linear: bool = True
    dropout: bool = False
    window: tuple[int | None, int | None] | None = None
    padding: bool = False

    @property
    def fusable(self) -> bool:
        """Whether the fused kernels support it: softmax over dot products with nothing in between."""
        return self.dot_product and self.softmax and not self.relative


def request_for(
    key: Tensor,
    value: Tensor,
    score: Score,
    *,
    normalizer: str,
    relative: RelativePositions | None,
    dropout: float,
    **options: bool | tuple[int | None, int | None] | None,
) -> Request:
    """The request for these keys and values; `options` are `window` and `padding`."""
    return Request(
        keys=key.shape[2],
        width=min(key.shape[3], value.shape[3]),
        device=value.device.type,
        dtype=value.dtype,
        dot_product=score.additive_vector is None,
        softmax=normalizer == "softmax",
        relative=relative is not None,
        linear=score.linear_in_key,
        dropout=dropout > 0,
        **options,
    )


def choose_kernel(request: Request) -> Kernel:
    """The kernel for self-attention whose only masks are a window and padding."""
    # An exported graph has any number of keys; the other kernels are traced for the number at hand.
    if torch.compiler.is_exporting() or (request.window is None and request.fusable):
        return choose_dense(request)
    return choose_windowed(request, *(request.window or (None, None)))


def choose_dense(request: Request) -> Kernel:
    """The kernel for every query over every key, with any mask, or of another sequence."""
    short_half = request.device == "cpu" and request.dtype in HALF and request.keys < HALF_FUSED_FROM_KEYS
    return Kernel.FUSED if request.fusable and not short_half else Kernel.EXPLICIT


def choose_windowed(request: Request, left: int | None, right: int | None) -> Kernel:
    """The kernel for a window around each query."""
    if request.relative and not request.linear:
        return Kernel.PAIRWISE
    last = max(request.keys - 1, 0)
    left, right = (last if context is None else min(context, last) for context in (left, right))
    fusable = request.fusable and not request.dropout  # with dropout the fused kernels hold all T x T weights
    causal = left >= last and right == 0 and not request.padding
    if fusable and causal and request.keys >= (1 if request.device == "cuda" else CAUSAL_FUSED_FROM_KEYS):
        return Kernel.FUSED_CAUSAL
    if fusable and request.device == "cuda" and request.dtype != torch.float64 and request.width >= FLEX_FROM_WIDTH:
        return Kernel.FLEX
    # tanh(q + k) holds K numbers for every pair: never all pairs at once.
    if request.dot_product and request.keys <= min(left + right + BLOCK, EXPLICIT_UP_TO_KEYS):
        return Kernel.EXPLICIT
    return Kernel.BLOCKWISE
