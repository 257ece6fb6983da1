"""Sound in pushes gives the rows of the whole recording, after exactly the stated delay."""

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
    made = SpeechClassifier(7, tokens, **nested(**options)).to(dtype).eval()
    made.initialize(0.1 * torch.randn(3, 16_000, dtype=dtype))
    return made


def streamed(made, waveform, sizes):
    stream, parts, place, number = vitspeech.stream(made), [], 0, 0
    while place < len(waveform):
        size = sizes[number % len(sizes)]
        parts.append(stream.push(waveform[place : place + size]))
        place, number = place + size, number + 1
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
def test_a_stream_equals_the_whole_recording(samples, sizes, **arguments):
    made = network(**arguments)
    waveform = 0.1 * torch.randn(samples, dtype=torch.float64)
    got = streamed(made, waveform, sizes)
    if samples < made.tokens.window_samples:
        assert got.shape == (0, 7)
        return
    expected = made.forward_frames(waveform[None])[0]
    assert got.shape == expected.shape
    assert (got - expected).abs().max() < 1e-12


@torch.no_grad()
def test_in_single_precision_too_in_pushes_of_ten_milliseconds():
    made, waveform = network(torch.float32), 0.1 * torch.randn(48_000)
    difference = streamed(made, waveform, [160]) - made.forward_frames(waveform[None])[0]
    assert difference.abs().max() < 1e-5


@torch.no_grad()
def test_the_mean_of_the_rows_is_the_clips_answer():
    made, waveform = network(), 0.1 * torch.randn(16_000, dtype=torch.float64)
    assert torch.allclose(streamed(made, waveform, [777]).mean(0), made(waveform[None])[0], atol=1e-12)


def test_a_row_comes_with_the_sample_that_the_delay_says():
    made = network(left=5, right=[2, 1], stride=3)
    stream = vitspeech.stream(made)
    assert stream.delay_samples == 3 * stream.hop_samples + made.tokens.window_samples
    assert 1000 * stream.delay_samples / stream.sample_rate_hz == made.context_ms["delay_ms"]
    waveform = torch.randn(16_000)
    assert len(stream.push(waveform[: stream.delay_samples - 1])) == 0
    assert len(stream.push(waveform[:1])) == 1
    assert len(stream.push(waveform[: stream.hop_samples - 1])) == 0
    assert len(stream.push(waveform[:1])) == 1


@torch.no_grad()
def test_integers_are_scaled_and_arrays_are_taken():
    made = network()
    whole = (3000 * torch.randn(9000)).to(torch.int16)
    got = streamed(made, whole.numpy(), [1000])
    assert torch.allclose(got, streamed(made, whole.double() / 32768, [9000]), atol=1e-12)
    assert streamed(made, whole.numpy().astype(numpy.float32) / 32768, [9000]).shape == got.shape


def test_a_flushed_stream_begins_anew():
    stream, waveform = vitspeech.stream(network()), torch.randn(9000, dtype=torch.float64)
    first = torch.cat((stream.push(waveform), stream.flush()))
    assert torch.equal(first, torch.cat((stream.push(waveform), stream.flush())))


def test_pushing_nothing_gives_nothing():
    stream = vitspeech.stream(network())
    assert stream.push(torch.zeros(0)).shape == (0, 7) and stream.flush().shape == (0, 7)


@pytest.mark.slow
def test_what_is_kept_does_not_grow_in_an_hour():
    made = network(torch.float32, depth=1)
    stream = vitspeech.stream(made)

    def held():
        kept = [tensor for block in stream.encoder.blocks for tensor in (block.waiting, block.key, block.value)]
        return sum(tensor.untyped_storage().nbytes() for tensor in [stream.kept, *kept])

    second, sizes = 0.1 * torch.randn(16_000), []
    for _ in range(3600):
        stream.push(second)
        sizes.append(held())
    assert max(sizes[5:]) <= max(sizes[:5])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: network(right=None), "unlimited"),
        (lambda: network().train(), "call eval"),
        (lambda: SpeechCNN(7), "SpeechCNN has no attention encoder"),
        (lambda: vitspeech.ViT(7), "ViT has no attention encoder over speech tokens"),
    ],
)
def test_what_can_not_be_streamed_is_refused_with_the_reason(made, reason):
    with pytest.raises(ValueError, match=reason):
        vitspeech.stream(made())


def test_samples_that_are_none_are_refused():
    stream = vitspeech.stream(network())
    with pytest.raises(ValueError, match="1 of 3 samples are no numbers"):
        stream.push(torch.tensor([0.0, float("nan"), 1.0]))
    with pytest.raises(ValueError, match=r"shape \(2, 3\) are not one row"):
        stream.push(torch.zeros(2, 3))
