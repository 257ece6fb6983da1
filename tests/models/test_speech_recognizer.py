"""The speech recognizer: a row a token with a class for the blank, alike alone, in a batch and in a stream."""

import pytest
import torch
from arguments import nested

import vitspeech
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechRecognizer

LENGTHS = torch.tensor([7001, 1360, 11_213])


def recognizer(dtype=torch.float64, **arguments) -> SpeechRecognizer:
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=3)
    return SpeechRecognizer(7, tokens, **nested(**{"depth": 2, "heads": 3} | arguments)).to(dtype).eval()


def waveforms(samples=13_000, dtype=torch.float64):
    return torch.randn(3, samples, generator=torch.Generator().manual_seed(1), dtype=dtype)


@pytest.mark.parametrize("positions", [None, "relative", "rotary"])
def test_every_token_gives_a_logit_for_each_unit_and_the_blank(positions):
    logits, tokens = recognizer(torch.float32, positions=positions)(waveforms(dtype=torch.float32))
    assert logits.shape == (3, 25, 8) and tokens.tolist() == [25, 25, 25] and tokens.dtype == torch.long
    assert recognizer()(waveforms(), LENGTHS)[1].tolist() == [12, 1, 21]


def test_counts_of_long_recordings_are_not_rounded_in_half_precision():
    network, sound = recognizer(torch.float32), torch.randn(1, 156_080)
    with torch.autocast("cpu", torch.bfloat16):
        logits, tokens = network(sound)
    assert tokens.tolist() == [logits.shape[1]] and logits.shape[1] > 256 and logits.shape[1] % 2


@pytest.mark.parametrize("size", [160, 1777, 13_000])
@torch.no_grad()
def test_a_stream_equals_the_whole_recording(size):
    network, waveform = recognizer(left=5, right=[2, 1]), 0.1 * waveforms()[0]
    expected = network(waveform[None])[0][0]
    stream = vitspeech.stream(network)
    got = torch.cat([*map(stream.push, waveform.split(size)), stream.flush()])
    assert got.shape == expected.shape and (got - expected).abs().max() < 1e-12


def test_every_parameter_is_trained():
    network = recognizer(torch.float32).train()
    logits, _ = network(waveforms(dtype=torch.float32), LENGTHS)
    logits.square().sum().backward()
    assert [name for name, parameter in network.named_parameters() if parameter.grad is None] == []
