"""Attention passes through its own modules: hooks and adapters on query, key, value and output apply everywhere."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import Decoder, DecoderConfig, Encoder, EncoderConfig, MultiHeadAttention
from vitspeech.attention.streaming import EncoderStream

PARTS = ["query", "key", "value", "output"]


def counted(network):
    """The names of the projections that run, in a list that grows."""
    calls = []
    for module in network.modules():
        if isinstance(module, MultiHeadAttention):
            for name in PARTS:
                getattr(module, name).register_forward_hook(lambda *given, name=name: calls.append(name))
    return calls


class Adapter(nn.Module):
    """A low-rank update of a linear layer (LoRA: Hu et al. 2021, arXiv:2106.09685)."""

    def __init__(self, linear: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.linear = linear
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


@pytest.mark.parametrize("window", [{}, {"left": 2, "right": 1}, {"right": 0}])
@torch.no_grad()
def test_hooks_fire_in_self_attention_and_cross_attention_and_in_a_stream(window):
    attention, x = MultiHeadAttention(12, 3, **window), torch.randn(2, 50, 12)
    calls = counted(attention)
    attention(x)
    attention(x, torch.randn(2, 7, 12))
    encoder = Encoder(12, EncoderConfig(depth=1, heads=3, left=2, right=1)).eval()
    streamed = counted(encoder)
    EncoderStream(encoder).push(x)
    assert calls == 2 * PARTS and streamed == PARTS


@torch.no_grad()
def test_hooks_fire_in_a_step_of_the_decoder_and_the_source_is_projected_once():
    decoder = Decoder(12, DecoderConfig(depth=1, heads=3)).eval()
    calls = counted(decoder)
    cache = decoder.start(torch.randn(1, 7, 12))
    assert calls == ["key", "value"]
    calls.clear()
    for _ in range(2):
        _, cache = decoder.step(torch.randn(1, 1, 12), cache)
        assert calls == [*PARTS, "query", "output"]
        calls.clear()


@pytest.mark.parametrize("name", PARTS)
@torch.no_grad()
def test_an_adapter_in_place_of_a_projection_changes_the_output(name):
    torch.manual_seed(0)
    encoder, x = Encoder(12, EncoderConfig(depth=1, heads=3, left=4, right=2)).eval(), torch.randn(1, 9, 12)
    before = encoder(x)
    attention = encoder.blocks[0].attention
    setattr(attention, name, Adapter(getattr(attention, name)))
    after = encoder(x)
    assert not torch.allclose(before, after)
    stream = EncoderStream(encoder)
    assert_close(torch.cat((stream.push(x), stream.flush(x)), dim=1), after)
    nn.init.zeros_(getattr(attention, name).up.weight)
    assert_close(encoder(x), before)
