"""A score of the user's own: as a class, under a registered name; and what is refused."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech.attention import (
    SCORES,
    Decoder,
    DecoderConfig,
    Encoder,
    EncoderConfig,
    MultiHeadAttention,
    Score,
    register_score,
)
from vitspeech.attention.streaming import EncoderStream


class Distance(Score):
    """-‖q - k‖² but for the query's own part, by q·k - ‖k‖²/2: a key's number beside its vector."""

    def __init__(self, heads, width):
        super().__init__(heads, width)
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))

    def prepare(self, query, key):
        query = torch.cat((query, torch.ones_like(query[..., :1])), dim=-1)
        return query * self.temperature, torch.cat((key, -key.square().sum(-1, keepdim=True) / 2), dim=-1)


def sequence(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def registered():
    register_score("distance")(Distance)
    yield "distance"
    del SCORES["distance"]


def dense(attention, x, left, right):
    """Truncated self-attention by the score's definition."""
    query, key, value = (attention.split_heads(part(x)) for part in (attention.query, attention.key, attention.value))
    scores = attention.score(query, key)
    offset = torch.arange(x.shape[1]) - torch.arange(x.shape[1])[:, None]
    weights = scores.masked_fill((offset < -left) | (offset > right), -torch.inf).softmax(-1)
    return attention.output(attention.merge_heads(weights @ value))


@pytest.mark.parametrize("left, right", [(99, 99), (4, 2)])
def test_attention_with_an_own_score_equals_its_definition_dense_and_truncated(left, right):
    torch.manual_seed(0)
    attention, x = MultiHeadAttention(12, 2, left=left, right=right, score=Distance).double(), sequence(2, 70, 12)
    assert_close(attention(x), dense(attention, x, left, right))
    attention(x).square().sum().backward()
    assert attention.score.temperature.grad.abs().min() > 0


@torch.no_grad()
def test_encoder_stream_and_decoder_take_an_own_score(registered):
    torch.manual_seed(0)
    encoder = Encoder(12, EncoderConfig(depth=2, heads=3, left=4, right=1, score=registered)).double().eval()
    x = sequence(1, 23, 12)
    stream = EncoderStream(encoder)
    parts = [stream.push(part) for part in x.split(5, dim=1)]
    assert_close(torch.cat((*parts, stream.flush(x)), dim=1), encoder(x))
    decoder = Decoder(12, DecoderConfig(depth=2, heads=3, score=registered)).double().eval()
    cache, outputs = decoder.start(x), []
    for token in sequence(1, 7, 12, seed=1).split(1, dim=1):
        output, cache = decoder.step(token, cache)
        outputs.append(output)
    assert_close(torch.cat(outputs, dim=1), decoder(sequence(1, 7, 12, seed=1), x))


@pytest.mark.parametrize("name", ["forward", "__call__"])
def test_a_method_that_is_never_called_is_refused_when_it_is_defined(name):
    with pytest.raises(TypeError, match=rf"^Wrong\.{name} would never be called.*override prepare"):
        type("Wrong", (Score,), {name: lambda self, query, key: query})


def test_a_non_numeric_scale_is_refused():
    class Scaled(Score):
        def __init__(self, heads, width):
            super().__init__(heads, width)
            self.scale = torch.ones(())

    with pytest.raises(ValueError, match=r"Scaled\.scale is not a number"):
        MultiHeadAttention(12, 2, score=Scaled)


@pytest.mark.parametrize("other", [nn.Linear, 3, Distance(1, 2)])
def test_an_object_other_than_a_score_is_refused(other):
    with pytest.raises(TypeError, match=r"is not a subclass of vitspeech\.Score"):
        MultiHeadAttention(12, 2, score=other)
    with pytest.raises(TypeError, match=r"is not a subclass of vitspeech\.Score"):
        register_score("other")(other)
    assert "other" not in SCORES


def test_a_name_is_registered_once(registered):
    assert register_score("distance")(Distance) is Distance
    with pytest.raises(ValueError, match="'cosine' is already registered"):
        register_score("cosine")(Distance)
    with pytest.raises(ValueError, match="has a dot"):
        register_score("my.distance")
