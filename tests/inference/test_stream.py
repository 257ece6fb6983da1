"""Streams have the logits of the full recording, after exactly the stated delay."""

import numpy
import pytest
import torch
from arguments import nested
from hypothesis import given, settings
from hypothesis import strategies as draw

import vitspeech
from vitspeech.frontends import SpeechTokens
from vitspeech.models import SpeechClassifier, SpeechCNN


def network(dtype=torch.float64, **arguments):
    torch.manual_seed(0)
    options = {"left": 5, "right": 2, "depth": 2, "heads": 3} | arguments
    tokens = SpeechTokens(12, mels=17, stride=options.pop("stride", 2), stem=options.pop("stem", "convolutional"))
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


@settings(deadline=None, max_examples=60)
@given(
    samples=draw.integers(1, 24_000),
    sizes=draw.lists(draw.integers(1, 9000), min_size=1, max_size=4),
    left=draw.one_of(draw.none(), draw.integers(0, 40)),
    right=draw.integers(0, 40),
    depth=draw.integers(1, 3),
    stem=draw.sampled_from(["convolutional", "stacked"]),
    stride=draw.integers(1, 4),
    positions=draw.sampled_from([None, "relative", "rotary"]),
)
@torch.no_grad()
def test_a_stream_equals_the_full_recording(samples, sizes, **arguments):
    model = network(**arguments)
    waveform = 0.1 * torch.randn(samples, dtype=torch.float64)
    logits = streamed(model, waveform, sizes)
    if samples < model.tokens.window_samples:
        assert logits.shape == (0, 7)
        return
    expected = model.forward_frames(waveform[None])[0]
    assert logits.shape == expected.shape
    assert (logits - expected).abs().max() < 1e-12


@torch.no_grad()
def test_a_stream_in_single_precision_equals_the_full_recording():
    model, waveform = network(torch.float32), 0.1 * torch.randn(48_000)
    difference = streamed(model, waveform, [160]) - model.forward_frames(waveform[None])[0]
    assert difference.abs().max() < 1e-5


@torch.no_grad()
def test_the_mean_of_the_rows_is_the_output_for_the_clip():
    model, waveform = network(), 0.1 * torch.randn(16_000, dtype=torch.float64)
    assert torch.allclose(streamed(model, waveform, [777]).mean(0), model(waveform[None])[0], atol=1e-12)


def test_a_row_is_returned_after_exactly_the_stated_delay():
    model = network(left=5, right=[2, 1], stride=3)
    stream = vitspeech.stream(model)
    assert stream.delay_samples == 3 * stream.hop_samples + model.tokens.window_samples
    assert 1000 * stream.delay_samples / stream.sample_rate_hz == model.context_ms["delay_ms"]
    waveform = torch.randn(16_000)
    assert len(stream.push(waveform[: stream.delay_samples - 1])) == 0
    assert len(stream.push(waveform[:1])) == 1
    assert len(stream.push(waveform[: stream.hop_samples - 1])) == 0
    assert len(stream.push(waveform[:1])) == 1


@torch.no_grad()
def test_integers_are_scaled_and_arrays_are_accepted():
    model = network()
    whole = (3000 * torch.randn(9000)).to(torch.int16)
    logits = streamed(model, whole.numpy(), [1000])
    assert torch.allclose(logits, streamed(model, whole.double() / 32768, [9000]), atol=1e-12)
    assert streamed(model, whole.numpy().astype(numpy.float32) / 32768, [9000]).shape == logits.shape


def test_a_flushed_stream_can_be_used_again():
    stream, waveform = vitspeech.stream(network()), torch.randn(9000, dtype=torch.float64)
    first = torch.cat((stream.push(waveform), stream.flush()))
    assert torch.equal(first, torch.cat((stream.push(waveform), stream.flush())))


def test_pushing_no_samples_returns_no_rows():
    stream = vitspeech.stream(network())
    assert stream.push(torch.zeros(0)).shape == (0, 7) and stream.flush().shape == (0, 7)


@pytest.mark.slow
def test_memory_does_not_grow_within_an_hour():
    model = network(torch.float32, depth=1)
    stream = vitspeech.stream(model)

    def memory_bytes():
        tensors = [tensor for block in stream.encoder.blocks for tensor in (block.waiting, block.key, block.value)]
        return sum(tensor.untyped_storage().nbytes() for tensor in [stream.pending, *tensors])

    second, sizes = 0.1 * torch.randn(16_000), []
    for _ in range(3600):
        stream.push(second)
        sizes.append(memory_bytes())
    assert max(sizes[5:]) <= max(sizes[:5])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: network(right=None), "unlimited"),
        (lambda: network().train(), "call eval"),
        (lambda: SpeechCNN(7), "SpeechCNN can't be streamed: it has no encoder"),
        (lambda: vitspeech.ViT(7), "ViT can't be streamed: it has no encoder of speech tokens"),
    ],
)
def test_networks_that_cannot_be_streamed_are_refused_with_the_reason(model, reason):
    with pytest.raises(ValueError, match=reason):
        vitspeech.stream(model())


def test_invalid_samples_are_refused():
    stream = vitspeech.stream(network())
    with pytest.raises(ValueError, match="1 of 3 samples are not finite"):
        stream.push(torch.tensor([0.0, float("nan"), 1.0]))
    with pytest.raises(ValueError, match=r"shape \(2, 3\) are not one-dimensional"):
        stream.push(torch.zeros(2, 3))
