"""The speech transcriber: padding that nothing depends on, steps that equal teacher forcing, attention for a picture.

Shapes: B = 3 utterances of up to N = 16000 samples, T = 31 tokens, D = 12, H = 3, U = 7 units, L = 5.
"""

import pytest
import torch
from arguments import nested
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.frontends import SpeechFrontend
from vitspeech.models.speech_transcriber import SpeechTranscriber

SAMPLES = 16_000
LENGTHS = torch.tensor([11_003, 16_000, 1361])
GIVEN = torch.tensor([[4, 4, 0, 6, 1], [2, 5, 3, -1, -1], [-1, -1, -1, -1, -1]])
UNITS = (5, 3, 0)


def transcriber(dtype=torch.float32, **arguments):
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=3)
    return SpeechTranscriber(7, tokens, **nested(depth=2, heads=3, **arguments)).to(dtype).eval()


def waveforms(dtype=torch.float32):
    return torch.randn(3, SAMPLES, generator=torch.Generator().manual_seed(1), dtype=dtype)


@pytest.mark.parametrize("ctc", [False, True])
@pytest.mark.parametrize("positions", [None, "relative", "rotary"])
def test_utterances_become_a_row_of_logits_a_unit_and_one_for_the_end(positions, ctc):
    network = transcriber(positions=positions, ctc=ctc, decoder_depth=3)
    output = network(waveforms(), LENGTHS, GIVEN)
    assert output.logits.shape == (3, 6, 8)
    assert output.tokens.tolist() == [21, 31, 1]
    assert output.ctc_logits is None if not ctc else output.ctc_logits.shape == (3, 31, 8)
    assert len(network.decoder.blocks) == 3 and network.start_unit == 7
    assert network.context_ms["delay_ms"] is None


@pytest.mark.parametrize("window", [{}, {"left": 3, "right": [2, 0]}])
@torch.no_grad()
def test_valid_tokens_are_those_of_the_utterance_alone(window):
    dtype, tolerance = torch.float64, 1e-12
    network, given = transcriber(dtype, ctc=True, **window), waveforms(dtype)
    encoded, padding = network.encode(given, LENGTHS)
    batched = network(given, LENGTHS, GIVEN)
    for number, samples in enumerate(LENGTHS.tolist()):
        alone = given[[number], :samples]
        expected, valid = network.encode(alone)
        tokens = expected.shape[1]
        assert valid is None and padding[number].tolist() == [place < tokens for place in range(31)]
        assert_close(encoded[[number], :tokens], expected, atol=tolerance, rtol=tolerance)
        units = UNITS[number]
        output = network(alone, None, GIVEN[[number], :units])
        assert output.tokens.tolist() == [tokens]
        assert_close(batched.logits[[number], : units + 1], output.logits, atol=10 * tolerance, rtol=tolerance)
        assert_close(batched.ctc_logits[[number], :tokens], output.ctc_logits, atol=10 * tolerance, rtol=tolerance)


@pytest.mark.parametrize("score, normalizer", [("scaled_dot", "softmax"), ("additive", "relu")])
@torch.no_grad()
def test_blocks_add_the_cross_attention_times_the_values(score, normalizer):
    network = transcriber(torch.float64, decoder_depth=3, score=score, normalizer=normalizer)
    encoded, padding = network.encode(waveforms(torch.float64), LENGTHS)
    added = []
    for block in network.decoder.blocks:
        block.cross_attention.register_forward_hook(lambda module, given, result: added.append(result))
    network.decoder(network.embedded(GIVEN), encoded, source_padding=padding)
    weights = network.cross_attention(encoded, padding, GIVEN)
    assert weights.shape == (3, 3, 3, 6, 31)
    assert not weights[:, ~padding[:, None, None].expand(3, 3, 6, 31)].any()
    if normalizer == "softmax":
        assert_close(weights.sum(-1), torch.ones(3, 3, 3, 6, dtype=torch.float64))
    for block, shares, expected in zip(network.decoder.blocks, weights, added, strict=True):
        attention = block.cross_attention
        values = F.linear(encoded, attention.value.weight, attention.value.bias).view(3, 31, 3, 4)
        joined = torch.einsum("bhls,bshk->blhk", shares, values).reshape(3, 6, 12)
        result = F.linear(joined, attention.output.weight, attention.output.bias)
        assert_close(result, expected, atol=1e-12, rtol=1e-12)


def test_decoder_has_the_settings_of_the_encoder_by_default():
    network = transcriber(mlp_ratio=3, dropout=0.2, score="cosine", normalizer="relu", left=4, drop_path=0.1)
    for block in (*network.encoder.blocks, *network.decoder.blocks):
        assert block.mlp[0].out_features == 36 and block.dropout.p == 0.2 and block.attention.dropout == 0.2
        assert type(block.attention.score).__name__ == "Cosine" and block.attention.normalizer == "relu"
    assert {block.attention.left for block in network.encoder.blocks} == {4}
    assert {block.attention.left for block in network.decoder.blocks} == {None}
    assert all(block.attention.rotary is not None for block in transcriber(positions=None).decoder.blocks)


def test_decoder_settings_may_differ_from_the_encoder():
    network = transcriber(decoder={"depth": 1, "heads": 6, "left": 2, "mlp_ratio": 2.0})
    (block,) = network.decoder.blocks
    assert (block.attention.heads, block.attention.left, block.mlp[0].out_features) == (6, 2, 24)
    assert block.cross_attention.heads == 6 and network.encoder.blocks[0].attention.heads == 3
