"""The Transformer of Vaswani et al. 2017 (post-norm, ReLU, sinusoidal positions) and pre-norm against PyTorch's."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import Decoder, Encoder, FixedPositions, causal_mask, padding_mask

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


def copy_attention(ours, theirs):
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


@torch.no_grad()
def pytorch_transformer(encoder, decoder, norm, activation):
    """torch.nn.Transformer with the weights of our encoder and decoder."""
    sizes = (D, HEADS, len(encoder.blocks), len(decoder.blocks), HIDDEN)
    options = {"batch_first": True, "norm_first": norm == "pre", "dtype": torch.float64}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pre-norm and odd heads have no nested tensors, which nobody asked for
        theirs = nn.Transformer(*sizes, dropout=0.0, activation=activation, **options)
    for ours, layer in zip(encoder.blocks, theirs.encoder.layers, strict=True):
        copy_attention(ours.attention, layer.self_attn)
        pairs = ((ours.attention_norm, layer.norm1), (ours.mlp_norm, layer.norm2))
        for module, theirs_module in (*pairs, (ours.mlp[0], layer.linear1), (ours.mlp[3], layer.linear2)):
            theirs_module.load_state_dict(module.state_dict())
    for ours, layer in zip(decoder.blocks, theirs.decoder.layers, strict=True):
        copy_attention(ours.attention, layer.self_attn)
        copy_attention(ours.cross_attention, layer.multihead_attn)
        norms = ((ours.attention_norm, layer.norm1), (ours.cross_norm, layer.norm2), (ours.mlp_norm, layer.norm3))
        for module, theirs_module in (*norms, (ours.mlp[0], layer.linear1), (ours.mlp[3], layer.linear2)):
            theirs_module.load_state_dict(module.state_dict())
    for part, ours in ((theirs.encoder, encoder), (theirs.decoder, decoder)):
        if norm == "pre":
            part.norm.load_state_dict(ours.norm.state_dict())
        else:
            part.norm = None  # PyTorch adds a norm that the paper does not have
    return theirs.eval()


@pytest.mark.parametrize("norm, activation", [("post", "relu"), ("pre", "gelu"), ("post", "gelu")])
@pytest.mark.parametrize("padded", [False, True])
def test_encoder_and_decoder_equal_pytorchs_transformer(norm, activation, padded):
    torch.manual_seed(0)
    settings = {"heads": HEADS, "mlp_ratio": HIDDEN / D, "norm": norm, "activation": activation}
    encoder = randomized(Encoder(D, {"depth": 3} | settings, positions="sinusoidal"))
    decoder = randomized(Decoder(D, {"depth": 2} | settings, positions="sinusoidal"))
    source, target = torch.randn(4, 13, D, dtype=torch.float64), torch.randn(4, 7, D, dtype=torch.float64)
    padding = padding_mask(torch.tensor([13, 5, 9, 1]), 13) if padded else None
    ours = decoder(target, encoder(source, padding), source_padding=padding)
    masks = {"src_key_padding_mask": ~padding, "memory_key_padding_mask": ~padding} if padded else {}
    theirs = pytorch_transformer(encoder, decoder, norm, activation)
    expected = theirs(source + positions(13), target + positions(7), tgt_mask=~causal_mask(7), **masks)
    assert_close(ours, expected, rtol=0, atol=1e-10)


def test_post_norm_has_no_norm_after_the_last_block():
    torch.manual_seed(0)
    encoder = Encoder(D, {"depth": 2, "heads": HEADS, "norm": "post"})
    assert not any("norm" in name.split(".")[0] for name, _ in encoder.named_parameters())
    assert_close(encoder(torch.randn(2, 9, D)).mean(-1), torch.zeros(2, 9), rtol=0, atol=1e-5)


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


def test_unknown_positions_are_refused():
    with pytest.raises(ValueError, match="positions='sine' is unknown; known: sinusoidal, learned, relative, rotary"):
        Encoder(D, {"heads": HEADS}, positions="sine")
