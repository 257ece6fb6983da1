"""Streams have the logits of the full recording, after exactly the stated delay."""

import numpy
import pytest
import torch
from arguments import nested
from hypothesis import given, settings
from hypothesis import strategies as draw

import vitspeech
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier, SpeechCNN


def network(dtype=torch.float64, **arguments):
    torch.manual_seed(0)
    options = {"left": 5, "right": 2, "depth": 2, "heads": 3} | arguments
    front_end = {name: options.pop(name) for name in ("stem", "stride", "hop_ms", "window_ms") if name in options}
    tokens = SpeechFrontend(12, mels=9, **front_end)
    model = SpeechClassifier(7, tokens, **nested(**options)).to(dtype).eval()
    model.initialize(0.1 * torch.randn(3, 16_000, dtype=dtype))
    return model


def streamed(model, waveform, sizes):
    stream, parts, start, number = vitspeech.stream(model), [], 0, 0
    while start < len(waveform):
        size = sizes[number % len(sizes)]
        parts.append(stream.push(waveform[start : start + size]))
        start, number = start + size, number + 1
    return torch.cat([*parts, stream.flush()])


@torch.no_grad()
def check_stream(samples, sizes, hop_ms, overlap, **arguments):
    model = network(hop_ms=hop_ms, window_ms=hop_ms * overlap, **arguments)
    waveform = 0.1 * torch.randn(samples, dtype=torch.float64)
    logits = streamed(model, waveform, [*sizes, 701])  # which goes on if all others are 0
    if samples < model.tokens.window_samples:
        assert logits.shape == (0, 7)
        return
    expected = model.forward_frames(waveform[None])[0]
    assert logits.shape == expected.shape
    assert (logits - expected).abs().max() < 1e-12


STREAMS = given(
    samples=draw.integers(1, 24_000),
    sizes=draw.lists(draw.one_of(draw.integers(0, 3), draw.integers(0, 9000)), min_size=1, max_size=4),
    left=draw.one_of(draw.none(), draw.integers(0, 40)),
    right=draw.integers(0, 40),
    depth=draw.integers(1, 3),
    stem=draw.sampled_from(["convolutional", "stacked"]),
    stride=draw.integers(1, 12),
    hop_ms=draw.sampled_from([5.0, 10.0, 16.0]),
    overlap=draw.sampled_from([1.0, 1.5, 2.5]),
    positions=draw.sampled_from([None, "relative", "rotary"]),
)
test_a_stream_equals_the_full_recording = settings(deadline=None, max_examples=40)(STREAMS(check_stream))
test_many_streams_equal_the_full_recording = pytest.mark.slow(
    settings(deadline=None, max_examples=600)(STREAMS(check_stream))
)


@torch.no_grad()
def test_a_stream_in_single_precision_equals_the_full_recording():
    model, waveform = network(torch.float32), 0.1 * torch.randn(48_000)
    difference = streamed(model, waveform, [160]) - model.forward_frames(waveform[None])[0]
    assert difference.abs().max() < 1e-5


def test_a_row_is_returned_after_exactly_the_stated_delay():
    model = network(left=5, right=[2, 1], stride=3)
    stream = vitspeech.stream(model)
    assert stream.latency_samples == 3 * stream.hop_samples + model.tokens.window_samples
    assert 1000 * stream.latency_samples / stream.sample_rate_hz == model.context_ms["delay_ms"]
    waveform = torch.randn(16_000)
    assert len(stream.push(waveform[: stream.latency_samples - 1])) == 0
    assert len(stream.push(waveform[:1])) == 1
    assert len(stream.push(waveform[: stream.hop_samples - 1])) == 0
    assert len(stream.push(waveform[:1])) == 1


def test_a_flushed_stream_can_be_used_again():
    stream, waveform = vitspeech.stream(network()), torch.randn(9000, dtype=torch.float64)
    first = torch.cat((stream.push(waveform), stream.flush()))
    assert torch.equal(first, torch.cat((stream.push(waveform), stream.flush())))


def test_a_restarted_stream_has_forgotten_what_was_pushed():
    stream, waveform = vitspeech.stream(network(stride=12)), torch.randn(9000, dtype=torch.float64)
    first = torch.cat((stream.push(waveform), stream.flush()))
    stream.push(waveform[:1500])  # ends between two tokens
    stream.restart()
    assert torch.equal(first, torch.cat((stream.push(waveform), stream.flush())))


@pytest.mark.parametrize("seconds", [20, pytest.param(3600, marks=pytest.mark.slow)])
def test_memory_does_not_grow(seconds):
    model = network(torch.float32, depth=1)
    stream = vitspeech.stream(model)

    def memory_bytes():
        return sum(tensor.untyped_storage().nbytes() for tensor in [stream.pending, *stream.encoder.tensors])

    second, sizes = 0.1 * torch.randn(16_000), []
    for _ in range(seconds):
        stream.push(second)
        sizes.append(memory_bytes())
    assert max(sizes[5:]) <= max(sizes[:5])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: network(right=None), "look-ahead is unlimited .* such as speech-commands-truncated"),
        (lambda: vitspeech.SpeechTranscriber(7), "its decoder needs the whole recording; .* spoken-words-ctc"),
        (lambda: network().train(), "call eval"),
        (lambda: SpeechCNN(7), "SpeechCNN can't be streamed: it has no encoder"),
        (lambda: vitspeech.ViT(7), "ViT can't be streamed: it has no encoder of speech tokens"),
    ],
)
def test_networks_that_cannot_be_streamed_are_refused_with_the_reason(model, reason):
    with pytest.raises(ValueError, match=reason):
        vitspeech.stream(model())


@pytest.mark.parametrize(
    "samples",
    [
        torch.tensor([0.1, float("nan"), 0.3]),
        torch.cat((torch.zeros(352_000), torch.tensor([-float("inf")]))),
        torch.tensor([0.1, -16.5]),
        torch.zeros(2, 3),
        torch.zeros(9, dtype=torch.int32),
        numpy.zeros(9, dtype=numpy.uint16),
        torch.zeros(9, dtype=torch.complex64),
    ],
    ids=lambda samples: str(samples.dtype),
)
def test_a_stream_goes_on_after_samples_that_are_refused_as_if_they_had_not_been_pushed(samples):
    model, waveform = network(stride=12), torch.randn(9000, dtype=torch.float64)
    expected, stream = streamed(model, waveform, [2000, 7000]), vitspeech.stream(model)
    rows = [stream.push(waveform[:2000])]
    with pytest.raises(InputError, match="within ±1"):
        stream.push(samples)
    assert torch.equal(torch.cat([*rows, stream.push(waveform[2000:]), stream.flush()]), expected)


@pytest.mark.parametrize(
    "convert",
    [
        lambda samples: samples.astype(">i2"),
        lambda samples: numpy.stack((samples, samples), 1)[:, 0],
        lambda samples: samples[::-1].copy()[::-1],
        lambda samples: numpy.frombuffer(samples.tobytes(), numpy.int16),  # read-only
        lambda samples: (samples / 32768).astype(">f4"),
        lambda samples: (samples / 32768).astype(numpy.longdouble),
        lambda samples: (samples / 32768).tolist(),
        lambda samples: torch.tensor(samples / 32768, dtype=torch.float16),
        lambda samples: torch.tensor(samples / 32768, dtype=torch.bfloat16),
    ],
)
@pytest.mark.filterwarnings("error")
def test_samples_of_any_byte_order_stride_and_precision_are_accepted(convert):
    model = network()
    samples = (numpy.random.default_rng(0).integers(-100, 100, 4000) * 64).astype(numpy.int16)  # exact in bfloat16
    assert torch.equal(streamed(model, convert(samples), [999]), streamed(model, torch.tensor(samples), [999]))
