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


@pytest.mark.parametrize("positions", [None, "relative", "rotary"])
def test_every_token_gives_a_row_for_each_of_its_frames(positions):
    logits, frames = labeler(positions=positions)(torch.randn(5, SAMPLES))
    assert logits.shape == (5, 93, 7)
    assert frames.tolist() == [93] * 5 and frames.dtype == torch.long


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
    ("stem", "stride", "first_ms"),
    [
        ("convolutional", 1, 30 + 7.5),
        ("convolutional", 2, 20 + 7.5),
        ("convolutional", 3, 20 + 7.5),
        ("convolutional", 7, 7.5),
        ("stacked", 3, 7.5),
    ],
)
def test_labeled_frames_begin_in_the_middle_of_what_the_first_token_sees(stem, stride, first_ms):
    network = labeler(torch.float64, stem, stride, left=0, right=0)
    assert network.first_frame_ms == first_ms and network.frame_ms == 10.0
    waveform = torch.randn(1, SAMPLES, dtype=torch.float64, requires_grad=True)
    network(waveform)[0][0, :stride].square().sum().backward()
    seen = waveform.grad[0].nonzero().flatten() / 16
    # Half a frame at most is to be given to one side; of the window's two ends the first sample is multiplied by zero.
    assert -0.1 < (seen.min() + seen.max()) / 2 - (first_ms + stride * 10 / 2) < 5.1


def test_where_frames_are_follows_from_the_front_ends_own_numbers():
    tokens = SpeechFrontend(12, mels=17, stride=2, window_ms=32.0, hop_ms=8.0, sample_rate_hz=8000, high_hz=3800.0)
    network = SpeechLabeler(7, tokens, encoder={"depth": 1, "heads": 3})
    assert network.frame_ms == 8.0 and network.first_frame_ms == 2 * 8 + 12


@pytest.mark.parametrize("contexts", [{}, {"left": 5, "right": [2, 0]}])
@pytest.mark.parametrize("positions", [None, "relative", "rotary"])
@torch.no_grad()
def test_rows_of_a_padded_utterance_are_those_of_the_utterance_alone(positions, contexts):
    network = labeler(torch.float64, positions=positions, **contexts)
    lengths = torch.tensor([7001, 1360, 11_213])
    waveforms = torch.randn(3, 13_000, dtype=torch.float64)  # what is no utterance is noise, not zeros
    logits, frames = network(waveforms, lengths)
    assert logits.shape == (3, 63, 7) and frames.tolist() == [36, 3, 63]
    for row, waveform, length, count in zip(logits, waveforms, lengths.tolist(), frames.tolist(), strict=True):
        alone = network(waveform[None, :length])[0][0]
        assert alone.shape == (count, 7) and (row[:count] - alone).abs().max() < 1e-12


@pytest.mark.parametrize("size", [160, 1777, SAMPLES])
@pytest.mark.parametrize(("stem", "stride"), [("convolutional", 1), ("convolutional", 2), ("stacked", 5)])
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
