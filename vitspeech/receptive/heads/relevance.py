"""From the input's tokens to what the head sees, through all layers: attention rollout and gradient-weighted relevance.

Shapes: B batch, H heads, T tokens, P tokens that have a place, L layers.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken, MeanPooling, SelfAttentivePooling
from vitspeech.receptive.heads.measures import check_sizes, class_tokens_of, normalized
from vitspeech.receptive.heads.weights import unwrapped, written_out


def rollout(weights: Mapping[str, Tensor]) -> Tensor:
    """How much of each input token is in each token after each layer.

    Attention, the mean over heads, and the residual path count half each: Â = 0.5 A + 0.5 I, rows divided by their
    sums; the rollout of layer l is Â_l · … · Â_1 (Abnar and Zuidema 2020, arXiv:2005.00928, sec. 3).

    Args:
        weights: From `written_out`.

    Shape:
        L times (B, H, T, T) -> (L, B, T, T)

    Raises:
        ValueError: If layers differ in heads or tokens.
    """
    identity, layers = torch.eye(check_sizes(weights)[1]), []
    for layer in weights.values():
        mixed = normalized(0.5 * layer.mean(1) + 0.5 * identity.to(layer))
        layers.append(mixed @ layers[-1] if layers else mixed)
    return torch.stack(layers)


def relevance(network: nn.Module, inputs: Tensor, target: Tensor | None = None) -> Tensor:
    """How much each input token speaks for a class, as gathered in each token by the last layer.

    Chefer, Gur and Wolf 2021 (arXiv:2103.15679, eq. 5, 6): with Ā = mean over heads of (∇A ⊙ A)⁺, where ∇A is the
    gradient of the class's logit, R begins as the identity and each layer adds Ā · R to it.

    Args:
        network: In evaluation mode, with a row of logits for each input.
        inputs: As the network takes them, on its device.
        target: The class of each input; `None` is the one that the network predicts.

    Shape:
        target (B,) or None -> (B, T, T)

    Raises:
        NotRecomputable: As `written_out`.
        ValueError: If layers differ in heads or tokens, or logits are not (B, classes).
    """
    with written_out(network) as weights, torch.enable_grad():
        # Inputs that need a gradient put the weights into a graph also where parameters are frozen.
        logits = network(inputs.detach().requires_grad_())
        if logits.ndim != 2:
            raise ValueError(f"logits {tuple(logits.shape)} of {type(network).__name__} are not (B, classes)")
        identity = torch.eye(check_sizes(weights)[1])
        target = logits.argmax(-1) if target is None else target
        speaking = logits.gather(1, target[:, None]).sum()
        gradients = torch.autograd.grad(speaking, list(weights.values()))
    found = identity.to(logits).expand(len(logits), -1, -1)
    for layer, gradient in zip(weights.values(), gradients, strict=True):
        found = found + (gradient * layer.detach()).clamp(min=0).mean(1) @ found
    return found


def token_relevance(network: nn.Module, inputs: Tensor, target: Tensor | None = None) -> Tensor:
    """How much each place of the input speaks for a class: `relevance` in what the head sees, see `at_head`.

    Without the identity that R begins as: a class token has none of it in the other tokens, but where tokens are pooled
    it would give each its share of the pooling, a hundred times what attention adds.

    Shape:
        target (B,) or None -> (B, P)
    """
    gathered = relevance(network, inputs, target)
    return at_head(network, inputs, gathered - torch.eye(gathered.shape[-1]).to(gathered))


@torch.no_grad()
def at_head(network: nn.Module, inputs: Tensor, gathered: Tensor) -> Tensor:
    """How much of each place is in what the head sees, if tokens hold that much of each after the last layer.

    A class token's row; the mean of rows where tokens are averaged; rows as `SelfAttentivePooling` weighs them, the
    mean over its hops. Columns of class tokens and registers are left out.

    Args:
        network: A classifier of ours, or of timm with `global_pool` `token` or `avg`.
        inputs: What it was run on.
        gathered: `relevance`, or the last layer of `rollout`.

    Shape:
        gathered (B, T, T) -> (B, P)

    Raises:
        ValueError: If the network pools its tokens in another way.
    """
    return (shares_of_pooling(network, inputs, gathered) @ gathered)[:, 0, class_tokens_of(network) :]


def shares_of_pooling(network: nn.Module, inputs: Tensor, gathered: Tensor) -> Tensor:
    """How much of each token's row of (B, T, T) is in what the head sees: (B or 1, 1, T)."""
    pooling, pooled_by = getattr(network, "pooling", None), getattr(unwrapped(network), "global_pool", None)
    shares = torch.zeros(1, 1, gathered.shape[-1])
    if isinstance(pooling, SelfAttentivePooling):
        given = []
        hook = pooling.register_forward_pre_hook(lambda _, tokens: given.extend(tokens))
        try:
            network(inputs)
        finally:
            hook.remove()
        shares = pooling.weights(*given).mean(1, keepdim=True)
    elif isinstance(pooling, ClassToken) or pooled_by == "token":
        shares[..., 0] = 1
    elif isinstance(pooling, MeanPooling) or pooled_by == "avg":
        first = 0 if getattr(unwrapped(network), "pool_include_prefix", False) else class_tokens_of(network)
        shares[..., first:] = 1
    else:
        how = f"global_pool={pooled_by!r}" if pooling is None else type(pooling).__name__
        raise ValueError(f"{type(unwrapped(network)).__name__} pools tokens by neither class token nor mean: {how}")
    return normalized(shares).to(gathered)
