"""The contribution of each input token to the output, through all layers: attention rollout and relevance.

Attention rollout is by Abnar and Zuidema 2020 (arXiv:2005.00928), gradient-weighted relevance by Chefer, Gur and Wolf
2021 (arXiv:2103.15679).

Shapes: B batch, H heads, T tokens, P tokens with a position (all but class tokens and registers), L layers.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken, MeanPooling, SelfAttentivePooling
from vitspeech.errors import InputError
from vitspeech.receptive.heads.measures import class_tokens_of, common_tokens, normalize_rows
from vitspeech.receptive.heads.weights import attention_weights, unwrapped


def rollout(weights: Mapping[str, Tensor]) -> Tensor:
    """Attention rollout: the proportion of each input token in each token after each layer.

    The mean attention over heads and the residual path have equal weight: Â = 0.5 A + 0.5 I, with rows divided by
    their sums. The rollout of layer l is Â_l · … · Â_1 (Abnar and Zuidema 2020, arXiv:2005.00928, sec. 3).

    Shape:
        weights from `attention_weights`, L times (B, H, T, T) -> (L, B, T, T)
    """
    identity, layers = torch.eye(common_tokens(weights)), []
    for layer in weights.values():
        mixed = normalize_rows(0.5 * layer.mean(1) + 0.5 * identity.to(layer))
        layers.append(mixed @ layers[-1] if layers else mixed)
    return torch.stack(layers)


def relevance(network: nn.Module, inputs: Tensor, target: Tensor | None = None) -> Tensor:
    """Relevance R of each input token for a class, in each token after the last layer.

    Chefer, Gur and Wolf 2021 (arXiv:2103.15679, eq. 5, 6): Ā is the mean over heads of (∇A ⊙ A)⁺, where ∇A is the
    gradient of the class's logit. R starts as the identity, and each layer adds Ā · R.

    Args:
        network: In evaluation mode; returns one row of logits per input.
        inputs: The network's input, on its device.
        target: The class of each input; `None` is the predicted class.

    Shape:
        target (B,) or None -> (B, T, T)

    Raises:
        NotRecomputable: As `attention_weights`.
    """
    with attention_weights(network) as weights, torch.enable_grad():
        # The inputs require a gradient so that there is a graph also if all parameters are frozen.
        logits = network(inputs.detach().requires_grad_())
        identity = torch.eye(common_tokens(weights))
        target = logits.argmax(-1) if target is None else target
        target_logits = logits.gather(1, target[:, None]).sum()
        gradients = torch.autograd.grad(target_logits, list(weights.values()))
    result = identity.to(logits).expand(len(logits), -1, -1)
    for layer, gradient in zip(weights.values(), gradients, strict=True):
        result = result + (gradient * layer.detach()).clamp(min=0).mean(1) @ result
    return result


def token_relevance(network: nn.Module, inputs: Tensor, target: Tensor | None = None) -> Tensor:
    """Relevance of each position of the input for a class: `relevance` at the head, see `at_head`.

    The identity that R starts with is subtracted. For a class token it makes no difference, but with mean pooling it
    would add the same constant to each token, about a hundred times what attention adds.

    Shape:
        target (B,) or None -> (B, P)
    """
    matrix = relevance(network, inputs, target)
    return at_head(network, inputs, matrix - torch.eye(matrix.shape[-1]).to(matrix))


@torch.no_grad()
def at_head(network: nn.Module, inputs: Tensor, matrix: Tensor) -> Tensor:
    """The contribution of each position to the pooled token, from its contribution to each token of the last layer.

    This is the class token's row, the mean of the rows for mean pooling, or their weighted mean for
    `SelfAttentivePooling` (averaged over its hops). Columns of class tokens and registers are left out. The network is
    one of our classifiers, or a timm network with `global_pool` `token` or `avg`.

    Shape:
        matrix, `relevance` or the last layer of `rollout`, (B, T, T) -> (B, P)
    """
    return (pooling_weights(network, inputs, matrix) @ matrix)[:, 0, class_tokens_of(network) :]


def pooling_weights(network: nn.Module, inputs: Tensor, matrix: Tensor) -> Tensor:
    """The weight of each token in the pooled token, for a matrix (B, T, T): (B or 1, 1, T)."""
    pooling, global_pool = getattr(network, "pooling", None), getattr(unwrapped(network), "global_pool", None)
    weights = torch.zeros(1, 1, matrix.shape[-1])
    if isinstance(pooling, SelfAttentivePooling):
        arguments = []
        with pooling.register_forward_pre_hook(lambda _, tokens: arguments.extend(tokens)):
            network(inputs)
        weights = pooling.weights(*arguments).mean(1, keepdim=True)
    elif isinstance(pooling, ClassToken) or global_pool == "token":
        weights[..., 0] = 1
    elif isinstance(pooling, MeanPooling) or global_pool == "avg":
        first = 0 if getattr(unwrapped(network), "pool_include_prefix", False) else class_tokens_of(network)
        weights[..., first:] = 1
    else:
        how = f"global_pool={global_pool!r}" if pooling is None else type(pooling).__name__
        raise InputError(f"{type(unwrapped(network)).__name__} pools tokens by neither class token nor mean: {how}")
    return normalize_rows(weights).to(matrix)
