"""The attention weights of any network, recomputed while it runs.

Fused attention kernels do not return their weights. Within `attention_weights`, each self-attention layer computes
softmax(QKᵀ/√K) and its product with V in separate steps (Vaswani et al. 2017, arXiv:1706.03762, eq. 1). The result is
compared with the layer's own output and replaces it, so that gradients pass through the weights.

Shapes: B batch, H heads, T query tokens, S source tokens, K head width, D width.
"""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from vitspeech.attention import MultiHeadAttention, QuadraticAttention, SelfAttentivePooling
from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError
from vitspeech.models import TimmModel

SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
# Relative to a layer's largest output. Another order of summation differs by far less, another mask or scale by more.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class NotRecomputable(ValueError):
    """A network's attention weights can't be recomputed; the message names the layer, its class and the reason."""


@contextmanager
def attention_weights(network: nn.Module | Model) -> Iterator[dict[str, Tensor]]:
    """Record the weights of all self-attention layers in each forward pass within the context.

    The dictionary is empty at first and then holds the weights of the latest pass: module names as in `named_modules`,
    in the order in which the modules ran. Supported are `MultiHeadAttention` (any score, normalizer, positions and
    window), `QuadraticAttention` (its keys are the pixels of the image; the weights of the zero padding are left out),
    `nn.MultiheadAttention`, and all modules that call `F.scaled_dot_product_attention`, as timm's vision transformers
    do. Cross-attention, and attention pooling with a single query, are not recorded. Outputs change by rounding only.

    Args:
        network: In evaluation mode, or a model from `vitspeech.load`; its inputs have the batch axis first.

    Shape:
        -> weights (B, H, T, S), S = T

    Raises:
        NotRecomputable: When the network runs, if a layer attends within windows, over channels, to fewer keys than
            queries, with dropout, or without `scaled_dot_product_attention`; if the recomputed output differs from the
            layer's own; or if the network has no attention.
    """
    network = network.network if isinstance(network, Model) else network
    training = [name or type(network).__name__ for name, module in network.named_modules() if module.training]
    if training:
        raise InputError(f"{training[0]} is in training mode, where dropout may be active; call eval() first")
    recorder = Recorder(network)
    with ExitStack() as stack:
        for name, module in network.named_modules():
            before = module.register_forward_pre_hook(partial(recorder.enter, name), with_kwargs=True)
            after = module.register_forward_hook(partial(recorder.leave, name), with_kwargs=True)
            stack.enter_context(before)
            stack.enter_context(after)
            if getattr(module, "fused_attn", True) is False:  # a timm layer that does not call the fused kernel
                module.fused_attn = True
                stack.callback(setattr, module, "fused_attn", False)
        # Our own layers need no interception, and their compiled kernel would have to be traced through it.
        if not any(isinstance(module, MultiHeadAttention) for module in network.modules()):
            stack.enter_context(recorder)
        yield recorder.weights


class Recorder(TorchFunctionMode):
    """The weights of one pass and the modules that are running; intercepts `scaled_dot_product_attention`."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.weights: dict[str, Tensor] = {}
        self.running: list[tuple[str, nn.Module, list[Tensor]]] = []
        self.batch = 0

    def enter(self, name: str, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        """Before a module runs."""
        inputs = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        if module is self.network:
            self.batch = len(inputs[0])
            self.weights.clear()
            self.running.clear()  # an earlier pass may have raised an error
        self.running.append((name, module, inputs))

    def leave(self, name: str, module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> Any:
        """After a module has run; the output of an attention layer is replaced by the recomputed one."""
        kind = next((kind for kind in RECOMPUTED if isinstance(module, kind)), None)
        if kind is not None:
            with error_context(name, module):
                recomputed = RECOMPUTED[kind](module, *args, **kwargs)
                if recomputed is not None:
                    own, *others = output if isinstance(output, tuple) else (output,)
                    self.record(name, own, *recomputed)
                    output = (recomputed[0], *others) if others else recomputed[0]
        self.running.pop()  # only now, so that the recomputation is not intercepted
        if module is self.network and not self.weights:
            raise NotRecomputable(f"{type(unwrapped(module)).__name__} has no attention layer: no softmax weighs keys")
        return output

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        output = function(*args, **kwargs)
        layers = [entry for entry in self.running if not isinstance(entry[1], nn.Softmax)]
        if not layers or any(isinstance(module, tuple(RECOMPUTED)) for _, module, _ in layers):
            return output
        name, module, inputs = layers[-1]
        with error_context(name, module):
            if function is F.scaled_dot_product_attention:
                recomputed, weights = scaled_dot_product(*args, **kwargs)
                if weights.shape[-2] == 1 < weights.shape[-1]:
                    return output  # attention pooling with a single query
                self.record(name, output, recomputed, weights)
                queries, shape = weights.shape[-2], inputs[0].shape  # (B, T, D), NCHW or NHWC
                tokens = {3: {shape[1:2].numel()}, 4: {shape[1:3].numel(), shape[2:4].numel()}}.get(len(shape))
                if tokens and queries not in tokens:
                    raise NotRecomputable(f"its {queries} queries are not the tokens of its input {tuple(shape)}")
                return recomputed
            if isinstance(module, SelfAttentivePooling):
                return output  # its hops are no tokens
            if function in SOFTMAX and over_keys(output, *args[1:], **kwargs):
                shape = tuple(output.shape)
                raise NotRecomputable(f"its softmax over {shape} is not within scaled_dot_product_attention")
        return output

    def record(self, name: str, own: Tensor, recomputed: Tensor, weights: Tensor) -> None:
        """Store the weights, if they are self-attention over whole inputs and reproduce the layer's own output."""
        shape = tuple(weights.shape)
        if len(shape) != 4:
            raise NotRecomputable(f"its weights {shape} are not (B, H, T, S): it attends within windows")
        if shape[0] != self.batch:
            raise NotRecomputable(f"it attends within {shape[0]} windows of {self.batch} inputs, not over whole inputs")
        if shape[2] != shape[3]:
            raise NotRecomputable(f"its {shape[2]} queries and {shape[3]} keys are not the same tokens")
        if name in self.weights:
            raise NotRecomputable("it attends more than once in a pass")
        error, largest = (recomputed - own).abs().max().item(), own.abs().max().item()
        if not error <= TOLERANCE[own.dtype] * largest:
            raise NotRecomputable(f"recomputed it differs by {error:.2g} from its own output of up to {largest:.2g}")
        self.weights[name] = weights


@contextmanager
def error_context(name: str, module: nn.Module) -> Iterator[None]:
    """Prepend a layer's name and class to the message of `NotRecomputable`."""
    try:
        yield
    except NotRecomputable as reason:
        raise NotRecomputable(f"{name} ({type(module).__name__}): {reason}".lstrip()) from None


def multi_head(
    layer: MultiHeadAttention,
    x: Tensor,
    source: Tensor | None = None,
    *,
    padding: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor] | None:
    """The output and weights of our attention layer; `None` for cross-attention."""
    if source is not None:
        return None
    query, key, value = layer.project(x, None)
    attended, weights = layer.attend(query, key, value, layer.build_mask(query, key, padding, mask))
    return layer.output(layer.merge_heads(attended)), weights


def quadratic(layer: QuadraticAttention, image: Tensor) -> tuple[Tensor, Tensor]:
    """The output, and the weights of the image's pixels; the values of the padding are zero."""
    if layer.margin != layer.padding:
        raise NotRecomputable(f"with padding={layer.padding} and margin={layer.margin} its queries are not its keys")
    rows, columns = image.shape[2:]
    above, below, left, right = layer.padding
    weights = layer.weights(rows, columns).unflatten(-1, (above + rows + below, left + columns + right))
    weights = weights[..., above : above + rows, left : left + columns].flatten(-2).expand(len(image), -1, -1, -1)
    value = layer.value(image.flatten(2).transpose(1, 2)).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
    attended = (weights @ value).transpose(1, 2).flatten(2)
    return layer.output(attended).transpose(1, 2).unflatten(2, (rows, columns)), weights


def torch_multi_head(layer: nn.MultiheadAttention, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor] | None:
    """The output of PyTorch's layer and the weights of each head; `None` for cross-attention."""
    arguments = inspect.signature(layer.forward).bind(*args, **kwargs).arguments
    if arguments["key"] is not arguments["query"]:
        return None
    return layer.forward(**(arguments | {"need_weights": True, "average_attn_weights": False}))


RECOMPUTED = {MultiHeadAttention: multi_head, QuadraticAttention: quadratic, nn.MultiheadAttention: torch_multi_head}


def scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:
    """`F.scaled_dot_product_attention` from its documented definition, with its weights; the same arguments.

    Shape:
        (B, H, T, K), (B, H, S, K), (B, H, S, K) -> (B, H, T, K), weights (B, H, T, S)
    """
    if dropout_p:
        raise NotRecomputable(f"it drops {dropout_p} of its weights although it is in evaluation mode")
    if enable_gqa:
        key, value = (part.repeat_interleave(query.shape[-3] // part.shape[-3], -3) for part in (key, value))
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights = scores.softmax(-1)
    return weights @ value, weights


def over_keys(output: Tensor, dim: int | None = None, *_: Any, **__: Any) -> bool:
    """Whether a softmax with that result normalizes over keys for several queries, as in attention."""
    return dim in (-1, output.ndim - 1) and output.ndim > 2 and min(output.shape[-2:]) > 1


def unwrapped(network: nn.Module) -> nn.Module:
    """The timm network within a `TimmModel`; any other network unchanged."""
    return network.network if isinstance(network, TimmModel) else network
