"""The speech labeler: a row for each frame, where that frame is, and the same rows in a batch and in a stream."""

import pytest
import torch
from arguments import nested

import vitspeech
from vitspeech.frontends import SpeechFrontend
from vitspeech.models.speech import SpeechLabeler

SAMPLES = 16_000


def labeler(dtype=torch.float32, stem="convolutional", stride=3, **arguments):
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=stride, stem=stem)
    return SpeechLabeler(7, tokens, **nested(**{"depth": 2, "heads": 3} | arguments)).to(dtype).eval()


def test_every_token_gives_a_row_for_each_of_its_frames():
    logits, frames = labeler()(torch.randn(5, SAMPLES))
    assert logits.shape == (5, 93, 7)
    assert frames.tolist() == [93] * 5 and frames.dtype == torch.long
    logits, frames = labeler()(torch.randn(3, SAMPLES), torch.tensor([7001, 1360, 11_213]))
    assert logits.shape == (3, 63, 7) and frames.tolist() == [36, 3, 63]


@torch.no_grad()
def test_a_tokens_rows_are_one_after_the_other():
    network, encoded = labeler(torch.float64), torch.randn(2, 5, 12, dtype=torch.float64)
    rows = network.frame_logits(encoded)
    for token in range(5):
        for place in range(3):
            expected = encoded[:, token] @ network.head.weight[7 * place : 7 * place + 7].T
            expected += network.head.bias[7 * place : 7 * place + 7]
            assert torch.allclose(rows[:, 3 * token + place], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("stem", "stride", "size"), [("convolutional", 1, 1777), ("convolutional", 2, 160), ("stacked", 5, SAMPLES)]
)
@torch.no_grad()
def test_a_stream_equals_the_whole_recording(stem, stride, size):
    network = labeler(torch.float64, stem, stride, left=5, right=[2, 1])
    waveform = 0.1 * torch.randn(SAMPLES, dtype=torch.float64)
    expected = network(waveform[None])[0][0]
    stream = vitspeech.stream(network)
    got = torch.cat([*map(stream.push, waveform.split(size)), stream.flush()])
    assert got.shape == expected.shape and (got - expected).abs().max() < 1e-12


def test_a_stream_gives_all_rows_of_a_token_at_once_with_the_sample_that_the_delay_says():
    network = labeler(left=5, right=[2, 1])
    stream, waveform = vitspeech.stream(network), torch.randn(SAMPLES)
    assert 1000 * stream.latency_samples / stream.sample_rate_hz == network.context_ms["delay_ms"]
    assert stream.push(waveform[: stream.latency_samples - 1]).shape == (0, 7)
    assert stream.push(waveform[:1]).shape == (3, 7)
