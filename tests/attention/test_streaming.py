"""A stream of an encoder gives what the encoder gives for the whole sequence, and each output as soon as it can."""

import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw

from vitspeech.attention import Encoder, EncoderConfig
from vitspeech.attention.scores import NORMALIZERS, SCORES
from vitspeech.attention.streaming import PART, EncoderStream

WIDTH, HEADS = 12, 3


def encoder(seed=0, dtype=torch.float64, **arguments):
    torch.manual_seed(seed)
    positions = arguments.pop("positions", None)
    config = EncoderConfig(**{"depth": 2, "heads": HEADS} | arguments)
    return Encoder(WIDTH, config, positions=positions).to(dtype).eval()


def streamed(network, x, sizes):
    """Everything the stream gives for pushes of these sizes, over and over until x is used up, and the flush."""
    stream, place, parts, number = EncoderStream(network), 0, [], 0
    while place < x.shape[1]:
        size = max(sizes[number % len(sizes)], 1 if not any(sizes) else 0)
        parts.append(stream.push(x[:, place : place + size]))
        place, number = place + size, number + 1
    return torch.cat([*parts, stream.flush(x)], dim=1)


@settings(deadline=None, max_examples=80)
@given(
    contexts=draw.lists(
        draw.tuples(draw.one_of(draw.none(), draw.integers(0, 23)), draw.integers(0, 13)), min_size=1, max_size=4
    ),
    tokens=draw.integers(1, 61),
    sizes=draw.lists(draw.integers(0, 29), min_size=1, max_size=5),
    positions=draw.sampled_from([None, "sinusoidal", "relative", "rotary"]),
    score=draw.sampled_from(sorted(SCORES)),
    normalizer=draw.sampled_from(sorted(NORMALIZERS)),
    kernel=draw.integers(0, 7),
    convolution_right=draw.one_of(draw.none(), draw.integers(0, 6)),
    norm=draw.sampled_from(["pre", "post"]),
    seed=draw.integers(0, 99),
)
@torch.no_grad()
def test_a_stream_equals_the_whole_sequence(
    contexts, tokens, sizes, positions, score, normalizer, kernel, convolution_right, norm, seed
):
    left, right = (list(side) for side in zip(*contexts, strict=True))
    options = {"positions": positions, "score": score, "normalizer": normalizer, "norm": norm, "convolution": kernel}
    options["convolution_right"] = convolution_right and min(convolution_right, max(kernel - 1, 0))
    network = encoder(seed, depth=len(contexts), left=left, right=right, **options)
    x = torch.randn(2, tokens, WIDTH, dtype=torch.float64)
    got, expected = streamed(network, x, sizes), network(x)
    assert got.shape == expected.shape
    assert (got - expected).abs().max() < 1e-12


@torch.no_grad()
def test_a_convolution_adds_its_tokens_to_the_look_ahead():
    network = encoder(depth=2, left=3, right=1, convolution=5, convolution_right=[0, 2])
    assert network.receptive_field == (3 + 4 + 3 + 2, 1 + 1 + 2)
    stream = EncoderStream(network)
    x = torch.randn(1, 9, WIDTH, dtype=torch.float64)
    assert [stream.push(x[:, place : place + 1]).shape[1] for place in range(9)] == [0] * 4 + [1] * 5
    changed = x.clone()
    changed[:, 4, 0] += 1
    assert (network(x) - network(changed))[:, 0].abs().max() > 1e-9


@torch.no_grad()
def test_in_single_precision_too_over_a_long_sequence_pushed_at_once():
    network = encoder(dtype=torch.float32, depth=3, left=7, right=2, positions="rotary")
    x = torch.randn(1, 5 * PART + 17, WIDTH)
    stream = EncoderStream(network)
    got = torch.cat((stream.push(x), stream.flush(x)), dim=1)
    assert (got - network(x)).abs().max() < 1e-5


@torch.no_grad()
def test_an_output_comes_with_the_last_token_that_it_needs_and_not_later():
    network = encoder(depth=3, left=5, right=[2, 0, 3])
    stream = EncoderStream(network)
    x = torch.randn(1, 19, WIDTH, dtype=torch.float64)
    counts = [stream.push(x[:, place : place + 1]).shape[1] for place in range(19)]
    assert counts == [0] * 5 + [1] * 14  # 2 + 0 + 3 tokens of look-ahead
    assert stream.flush(x).shape[1] == 5
    # It needs that token: a change in the last one of its window changes it.
    changed = x.clone()
    changed[:, 5, 0] += 1
    assert (network(x) - network(changed))[:, 0].abs().max() > 1e-9


@torch.no_grad()
def test_what_is_kept_does_not_grow_with_the_sequence():
    network = encoder(depth=2, left=11, right=3, positions="relative")
    stream = EncoderStream(network)

    def held():
        return sum(tensor.untyped_storage().nbytes() for block in stream.blocks for tensor in block.tensors)

    sizes = []
    for parts in (1, 40):
        stream = EncoderStream(network)
        stream.push(torch.randn(1, parts * PART + 2, WIDTH, dtype=torch.float64))  # the last two tokens wait
        sizes.append(held())
    assert sizes[1] < 2 * sizes[0]
    stream, sizes = EncoderStream(network), []
    for _ in range(60):
        stream.push(torch.randn(1, 7, WIDTH, dtype=torch.float64))
        sizes.append(held())
    gc.collect()
    assert sizes[-1] == sizes[5]
    assert sizes[-1] == 2 * 8 * WIDTH * (3 + 3 + 2 * 2 * (14 + 7))  # buffers have room for twice as much


@torch.no_grad()
def test_an_unlimited_past_is_stored_in_a_buffer_that_grows():
    network = encoder(depth=2, left=None, right=1, positions="rotary")
    x = torch.randn(1, 3 * PART + 5, WIDTH, dtype=torch.float64)
    assert (streamed(network, x, [1]) - network(x)).abs().max() < 1e-12
    assert (streamed(network, x, [PART, 1, 7]) - network(x)).abs().max() < 1e-12


@torch.no_grad()
def test_a_stream_keeps_nothing_of_the_tensor_that_was_pushed():
    network = encoder(left=3, right=2, positions="rotary")
    x = torch.randn(1, 13, WIDTH, dtype=torch.float64)
    stream, parts, reused = EncoderStream(network), [], torch.empty(1, 1, WIDTH, dtype=torch.float64)
    for token in x.split(1, dim=1):
        parts.append(stream.push(reused.copy_(token)))
    assert (torch.cat([*parts, stream.flush(x)], dim=1) - network(x)).abs().max() < 1e-12


@torch.no_grad()
def test_a_flushed_stream_begins_anew():
    network = encoder(left=3, right=2, positions="rotary")
    stream = EncoderStream(network)
    x = torch.randn(1, 13, WIDTH, dtype=torch.float64)
    first = torch.cat((stream.push(x), stream.flush(x)), dim=1)
    again = torch.cat((stream.push(x), stream.flush(x)), dim=1)
    assert torch.equal(first, again)
    assert stream.flush(x).shape == (1, 0, WIDTH)


def test_an_unlimited_look_ahead_can_not_be_streamed():
    with pytest.raises(ValueError, match="look-ahead is unlimited"):
        EncoderStream(encoder(left=3, right=[1, None]))


def test_an_encoder_in_training_can_not_be_streamed():
    with pytest.raises(ValueError, match="call eval"):
        EncoderStream(encoder(left=3, right=1).train())


def test_learned_positions_cannot_be_streamed():
    with pytest.raises(ValueError, match="learned positions end after their table"):
        Encoder(16, {"depth": 1, "heads": 2, "right": 0}, positions="learned").eval().stream()


def test_a_stream_keeps_no_graph():
    stream = EncoderStream(encoder(left=3, right=1))
    x = torch.randn(1, 5, WIDTH, dtype=torch.float64)
    assert not stream.push(x).requires_grad and not stream.flush(x).requires_grad
