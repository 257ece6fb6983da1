"""The variants of the attention benchmark: ours, full attention, a dense mask, other packages, LSTM and convolution.

All variants map a sequence to a sequence of the same width. Everything besides the inputs is built before timing. The
attention variants begin with queries, keys and values; the layers have their weights, and `layer of ours` is attention
with its four projections, to be compared with LSTM and convolution.

Shapes: B batch, T tokens, H heads, K head width, D = H · K.
"""

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import methodcaller

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from benchmarks.measure import DTYPES, NotRunError, not_installed
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.attention.windowed.blocks import BLOCK, SCORES_AT_ONCE
from vitspeech.attention.windowed.truncated import truncated_attention


@dataclass(frozen=True)
class Case:
    """A problem size.

    Args:
        tokens: Sequence length T.
        dtype: `fp32` or `bf16`.
        batch: Batch size B.
        heads: Attention heads H.
        width: Width K of a head.
        left: Past context in tokens.
        right: Look-ahead in tokens.
        device: `cpu` or `cuda`.
    """

    tokens: int
    dtype: str = "fp32"
    batch: int = 4
    heads: int = 4
    width: int = 64
    left: int = 32
    right: int = 32
    device: str = "cpu"

    def random(self, *shape: int) -> Tensor:
        """Normal noise of a shape, drawn in the dtype of the case, without a copy."""
        return torch.randn(shape, dtype=DTYPES[self.dtype], device=self.device)


@dataclass(frozen=True)
class Prepared:
    """A variant with its inputs, ready to run.

    Args:
        function: Maps `inputs[:arguments]` to the output.
        inputs: The tensors to differentiate by: queries, keys and values, or a sequence and the parameters.
        upstream: The gradient of the output.
        arguments: Number of inputs passed to `function`; the others are its parameters.
    """

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    upstream: Tensor
    arguments: int

    def forward(self) -> Tensor:
        """The output, without a graph for the backward pass."""
        with torch.no_grad():
            return self.function(*self.inputs[: self.arguments])

    def forward_backward(self) -> tuple[Tensor, ...]:
        """The output and the gradients of all inputs."""
        output = self.function(*self.inputs[: self.arguments])
        return output, *torch.autograd.grad(output, self.inputs, self.upstream)


class Products:
    """The matrix products of truncated attention by blocks, on buffers in the cache: less time it cannot take.

    Two in the forward pass, and five more in the backward pass, which computes the scores again.
    """

    def __init__(self, case: Case) -> None:
        keys = case.left + BLOCK + case.right
        blocks = -(-case.tokens // BLOCK) * case.batch * case.heads
        at_once = min(SCORES_AT_ONCE["cpu"] // (BLOCK * keys) or 1, blocks)
        self.parts = -(-blocks // at_once)
        self.rows, self.slab = case.random(at_once, BLOCK, case.width), case.random(at_once, keys, case.width)
        self.weights = case.random(at_once, BLOCK, keys)
        self.results = [torch.empty_like(tensor) for tensor in (self.weights, self.rows, self.slab)]

    def forward(self) -> Tensor:
        """Scores and outputs."""
        weights, rows, _ = self.results
        for _ in range(self.parts):
            torch.bmm(self.rows, self.slab.transpose(1, 2), out=weights)
            torch.bmm(self.weights, self.slab, out=rows)
        return rows

    def forward_backward(self) -> tuple[Tensor, ...]:
        """Scores, outputs and gradients."""
        self.forward()
        weights, rows, slab = self.results
        for _ in range(self.parts):
            torch.bmm(self.rows, self.slab.transpose(1, 2), out=weights)  # the scores again
            torch.bmm(self.rows, self.slab.transpose(1, 2), out=weights)  # gradients of the weights,
            torch.bmm(self.weights.transpose(1, 2), self.rows, out=slab)  # the values,
            torch.bmm(self.weights, self.slab, out=rows)  # the queries,
            torch.bmm(self.weights.transpose(1, 2), self.rows, out=slab)  # and the keys
        return rows, slab


PASSES = {"forward": methodcaller("forward"), "forward+backward": methodcaller("forward_backward")}


def ours(case: Case) -> Callable[..., Tensor]:
    """This package's truncated attention."""
    return lambda query, key, value: truncated_attention(query, key, value, case.left, case.right)


def full(case: Case) -> Callable[..., Tensor]:
    """PyTorch's fused attention over the full sequence: another function, as the cost without a window."""
    return scaled_dot_product_attention


def dense_mask(case: Case) -> Callable[..., Tensor]:
    """PyTorch's fused attention with the window as a mask, which the first call builds."""

    @functools.cache
    def mask() -> Tensor:
        ones = torch.ones(case.tokens, case.tokens, dtype=torch.bool, device=case.device)
        return ones.tril_(case.right).triu_(-case.left)

    return lambda *inputs: scaled_dot_product_attention(*inputs, attn_mask=mask())


def local_attention(case: Case) -> Callable[..., Tensor]:
    """The package `local-attention` with exactly the same window."""
    if case.left != case.right or case.left < 1:
        raise NotRunError(f"requires left = right ≥ 1, not {case.left} and {case.right}")
    if importlib.util.find_spec("local_attention") is None:
        raise not_installed()
    if case.tokens % case.left:
        raise NotRunError(f"T={case.tokens:,} is not a multiple of {case.left}: it would attend to its own padding")
    from local_attention import LocalAttention

    return LocalAttention(
        window_size=case.left,
        look_backward=1,
        look_forward=1,
        exact_windowsize=True,
        use_rotary_pos_emb=False,
        autopad=True,
    )


def flex_by_hand(case: Case) -> Callable[..., Tensor]:
    """Compiled `flex_attention` with the same window."""
    if torch.device(case.device).type != "cuda":
        raise NotRunError("CUDA only: flex_attention has no backward on CPU")
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def allowed(batch: Tensor, head: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return (s - t >= -case.left) & (s - t <= case.right)

    blocks = create_block_mask(allowed, None, None, case.tokens, case.tokens, case.device)
    return functools.partial(torch.compile(flex_attention), block_mask=blocks)


def varlen(case: Case) -> Callable[..., Tensor]:
    """PyTorch's FlashAttention for sequences of variable length with the same window, which packs all tokens."""
    if torch.device(case.device).type != "cuda" or DTYPES[case.dtype] == torch.float32:
        raise NotRunError("CUDA in half precision only: varlen_attn is FlashAttention")
    from torch.nn.attention.varlen import varlen_attn

    ends = case.tokens * torch.arange(case.batch + 1, dtype=torch.int32, device=case.device)

    def attention(*inputs: Tensor) -> Tensor:
        packed = (tensor.transpose(1, 2).flatten(0, 1) for tensor in inputs)
        lengths = (ends, ends, case.tokens, case.tokens)
        attended = varlen_attn(*packed, *lengths, window_size=(case.left, case.right))
        return attended.unflatten(0, (case.batch, case.tokens)).transpose(1, 2)

    return attention


def layer_of_ours(case: Case) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """This package's multi-head attention with its projections."""
    module = MultiHeadAttention(case.heads * case.width, case.heads, left=case.left, right=case.right)
    return module, module


def lstm(case: Case) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """A unidirectional LSTM of the same width."""
    module = nn.LSTM(case.heads * case.width, case.heads * case.width, batch_first=True)
    return module, lambda sequence: module(sequence)[0]


def convolution(case: Case) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """A convolution over the same window, on the transposed input."""
    width, left, right = case.heads * case.width, case.left, case.right
    same = left == right
    module = nn.Conv1d(width, width, left + right + 1, padding=left if same else 0)
    return module, lambda sequence: module(
        sequence.transpose(1, 2) if same else pad(sequence.transpose(1, 2), (left, right))
    ).transpose(1, 2)


ATTENTION = {
    "ours": ours,
    "full": full,
    "dense mask": dense_mask,
    "local-attention": local_attention,
    "flex by hand": flex_by_hand,
    "varlen": varlen,
}
LAYERS = {"layer of ours": layer_of_ours, "LSTM": lstm, "convolution": convolution}
PRODUCTS = "products of ours"
VARIANTS = (*ATTENTION, *LAYERS, PRODUCTS)


def projected(case: Case) -> tuple[Tensor, ...]:
    """Queries, keys, values and an upstream gradient, shared by all attention variants.

    Shape:
        -> four times (B, H, T, K)
    """
    shape = (case.batch, case.heads, case.tokens, case.width)
    return (*(case.random(*shape).requires_grad_() for _ in range(3)), case.random(*shape))


def prepare(name: str, case: Case, shared: tuple[Tensor, ...] | None = None) -> Prepared | Products:
    """The variant with a name, and its inputs.

    Args:
        name: One of `VARIANTS`.
        case: The size.
        shared: The output of `projected`; `None` calls it.

    Raises:
        NotRunError: If the variant is not installed or does not support the case.
    """
    if name in ATTENTION:
        function = ATTENTION[name](case)
        *inputs, upstream = projected(case) if shared is None else shared
        return Prepared(function, tuple(inputs), upstream, arguments=3)
    if name == PRODUCTS:
        return Products(case)
    module, function = LAYERS[name](case)
    module.to(case.device, DTYPES[case.dtype])
    shape = (case.batch, case.tokens, case.heads * case.width)
    inputs = (case.random(*shape).requires_grad_(), *module.parameters())
    return Prepared(function, inputs, case.random(*shape), arguments=1)


def small(case: Case) -> Case:
    """The case with at most 64 tokens in whole windows, or one window if it is longer: enough to load the kernels."""
    window = case.left or 1  # local-attention takes whole windows only
    return replace(case, tokens=min(case.tokens, max(64 // window, 1) * window))
