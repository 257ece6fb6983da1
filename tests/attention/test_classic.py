"""The Transformer of Vaswani et al. 2017 (post-norm, ReLU, sinusoidal positions) and pre-norm against PyTorch's."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import Decoder, Encoder, FixedPositions, padding_mask

D, HEADS, HIDDEN = 24, 6, 48


def positions(count):
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(p / 10000^(2i/D)): one entry at a time."""
    table = torch.zeros(count, D, dtype=torch.float64)
    for p in range(count):
        for i in range(D // 2):
            angle = p / 10_000 ** (2 * i / D)
            table[p, 2 * i], table[p, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


def randomized(module):
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.eval()


def pytorch_transformer(encoder, decoder, norm, activation):
    """torch.nn.Transformer as large as our encoder and decoder."""
    sizes = (D, HEADS, len(encoder.blocks), len(decoder.blocks), HIDDEN)
    options = {"batch_first": True, "norm_first": norm == "pre", "dtype": torch.float64}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pre-norm and odd heads have no nested tensors, which nobody asked for
        theirs = nn.Transformer(*sizes, dropout=0.0, activation=activation, **options)
    if norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None  # PyTorch adds a norm that the paper does not have
    return theirs


def matched(encoder, decoder, theirs):
    """Our parameters, joined as PyTorch joins them, beside its own."""
    attentions, modules = [], []
    layers = (*theirs.encoder.layers, *theirs.decoder.layers)
    for ours, layer in zip((*encoder.blocks, *decoder.blocks), layers, strict=True):
        attentions.append((ours.attention, layer.self_attn))
        norms = [ours.attention_norm, ours.mlp_norm]
        if hasattr(ours, "cross_attention"):
            attentions.append((ours.cross_attention, layer.multihead_attn))
            norms.insert(1, ours.cross_norm)
        modules += [(module, getattr(layer, f"norm{number}")) for number, module in enumerate(norms, 1)]
        modules += [(ours.mlp[0], layer.linear1), (ours.mlp[3], layer.linear2)]
    modules += [(ours.output, their.out_proj) for ours, their in attentions]
    modules += [
        (ours.norm, their.norm) for ours, their in ((encoder, theirs.encoder), (decoder, theirs.decoder)) if their.norm
    ]
    for ours, their in attentions:
        yield [part.weight for part in (ours.query, ours.key, ours.value)], their.in_proj_weight
        yield [part.bias for part in (ours.query, ours.key, ours.value)], their.in_proj_bias
    for ours, their in modules:
        yield [ours.weight], their.weight
        yield [ours.bias], their.bias


def hidden(tokens, left, right):
    """True where a token may not attend to another."""
    offset = torch.arange(tokens) - torch.arange(tokens)[:, None]
    return (offset < -left) | (offset > right)


@pytest.mark.parametrize("norm, activation", [("post", "relu"), ("pre", "gelu"), ("post", "gelu")])
@pytest.mark.parametrize("padded, left, right", [(False, None, None), (True, None, None), (False, 3, 1)])
def test_encoder_and_decoder_equal_pytorchs_transformer_in_values_and_gradients(norm, activation, padded, left, right):
    torch.manual_seed(0)
    settings = {"heads": HEADS, "mlp_ratio": HIDDEN / D, "norm": norm, "activation": activation, "left": left}
    encoder = randomized(Encoder(D, {"depth": 3, "right": right} | settings, positions="sinusoidal"))
    decoder = randomized(Decoder(D, {"depth": 2} | settings, positions="sinusoidal"))
    theirs = pytorch_transformer(encoder, decoder, norm, activation)
    with torch.no_grad():
        for parts, whole in matched(encoder, decoder, theirs):
            whole.copy_(torch.cat(parts))
    assert len(list(matched(encoder, decoder, theirs))) == len(list(theirs.parameters()))
    given = [torch.randn(4, tokens, D, dtype=torch.float64, requires_grad=True) for tokens in (13, 7)]
    source, target = given
    padding = padding_mask(torch.tensor([13, 5, 9, 1]), 13) if padded else None
    masks = {"src_key_padding_mask": ~padding, "memory_key_padding_mask": ~padding} if padded else {}
    if left is not None:
        masks["src_mask"] = hidden(13, left, right)
    masks["tgt_mask"] = hidden(7, 7 if left is None else left, 0)
    ours = decoder(target, encoder(source, padding), source_padding=padding)
    expected = theirs(source + positions(13), target + positions(7), **masks)
    assert_close(ours, expected, rtol=0, atol=1e-10)
    assert_close(*(torch.autograd.grad(y.square().sum(), given, retain_graph=True) for y in (ours, expected)))
    ours.square().sum().backward()
    expected.square().sum().backward()
    for parts, whole in matched(encoder, decoder, theirs):
        assert_close(torch.cat([part.grad for part in parts]), whole.grad)


@pytest.mark.parametrize("part, options", [(Encoder, {"left": 4, "right": 2}), (Decoder, {"left": 4})])
@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_added_positions_are_those_of_the_place(part, options, kind):
    """Equal tokens have different outputs only because of their places; a shifted start shifts the positions."""
    torch.manual_seed(0)
    module = part(D, {"depth": 1, "heads": HEADS} | options, positions=kind).eval()
    x = torch.randn(1, 8, D)
    assert_close(module.add_positions(x)[:, 3:], module.add_positions(x[:, 3:], 3))
    assert (module.add_positions(x) - x).abs().amax(-1).min() > 0.01


def test_a_table_of_positions_is_added_by_encoder_and_decoder():
    table = torch.randn(20, D)
    for part in (Encoder, Decoder):
        module = part(D, {"depth": 1, "heads": HEADS}, positions=FixedPositions(table)).eval()
        x = torch.randn(2, 5, D)
        assert_close(module.add_positions(x, 3), x + table[3:8])
        with pytest.raises(ValueError, match=f"positions have width=8, but the tokens have width={D}"):
            part(D, {"depth": 1, "heads": HEADS}, positions=FixedPositions(table[:, :8]))
