import itertools

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech import RecurrentEncoder, SpeechClassifier, SpeechFrontend, stream

LENGTHS = torch.tensor([23, 1, 7, 12])
VARIANTS = list(itertools.product(("lstm", "gru"), (True, False)))


def encoder(cell="lstm", bidirectional=True, **options):
    torch.manual_seed(0)
    return RecurrentEncoder(14, 3, cell=cell, bidirectional=bidirectional, **options).double().eval()


def tokens(count=23):
    return torch.randn(4, count, 14, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("cell, bidirectional", VARIANTS)
def test_layers_are_those_of_pytorch(cell, bidirectional):
    ours = encoder(cell, bidirectional)
    theirs = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](
        14, 7 if bidirectional else 14, 3, batch_first=True, bidirectional=bidirectional, dtype=torch.float64
    )
    theirs.load_state_dict(
        {
            name.replace("_l0", f"_l{number}"): parameter
            for number, block in enumerate(ours.blocks)
            for name, parameter in block.layer.named_parameters()
        }
    )
    assert_close(ours(tokens()), theirs(tokens())[0])


@pytest.mark.parametrize("cell, bidirectional", VARIANTS)
def test_padding_changes_neither_outputs_nor_gradients(cell, bidirectional):
    ours, x = encoder(cell, bidirectional), tokens().requires_grad_()
    padding = torch.arange(23) < LENGTHS[:, None]
    padded = ours(x, padding)
    alone = [ours(row[None, :length])[0] for row, length in zip(x, LENGTHS, strict=True)]
    valid = [row[:length] for row, length in zip(padded, LENGTHS, strict=True)]
    assert_close(torch.cat(valid), torch.cat(alone))
    gradients = [torch.autograd.grad(torch.cat(rows).square().sum(), x)[0] for rows in (valid, alone)]
    assert_close(*gradients)
    assert not gradients[0][~padding].any()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("cuts", [(), (1,), (0, 0, 5, 6), tuple(range(23))])
def test_a_stream_equals_the_whole_sequence(cell, cuts):
    ours, x = encoder(cell, bidirectional=False), tokens()
    running = ours.stream()
    for _ in range(2):  # flush restarts
        outputs = [running.push(part) for part in x.tensor_split(cuts, dim=1)]
        assert_close(torch.cat([*outputs, running.flush(x)], dim=1), ours(x))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_audio_streams_through_a_causal_classifier(cell):
    torch.manual_seed(0)
    recurrent = RecurrentEncoder(16, 2, cell=cell, bidirectional=False, hidden=12)
    network = SpeechClassifier(5, SpeechFrontend(16, mels=20, stride=4), recurrent).double().eval()
    audio = torch.randn(20_000, dtype=torch.float64) / 10
    running = stream(network)
    assert running.latency_samples == network.tokens.window_samples
    logits = torch.cat([*(running.push(part) for part in audio.split(777)), running.flush()])
    assert_close(logits, network.forward_frames(audio[None])[0])


def test_reach_and_context():
    assert encoder().receptive_field == (None, None)
    assert encoder(bidirectional=False).receptive_field == (None, 0)
    network = SpeechClassifier(2, SpeechFrontend(16, stride=4), RecurrentEncoder(16, bidirectional=False))
    assert network.context_ms == {"look_back_ms": None, "look_ahead_ms": 0, "delay_ms": 85}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"cell": "rnn"}, "cell='rnn' is unknown; known: lstm, gru"),
        ({"depth": 0}, "depth=0 is not a number from 1"),
        ({"hidden": 0}, "hidden=0 is not a number from 1"),
        ({"dropout": 1.0}, "dropout=1.0 is not within 0 .. 1"),
        ({"width": 7}, "width=7 is odd"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        RecurrentEncoder(**{"width": 14} | arguments)


def test_what_cannot_be_streamed_says_why():
    with pytest.raises(ValueError, match="look-ahead is unlimited"):
        encoder().stream()
    with pytest.raises(ValueError, match=r"call eval\(\) first"):
        encoder(bidirectional=False).train().stream()
    with pytest.raises(ValueError, match=r"look-ahead is unlimited \(.* bidirectional\), so no output is final"):
        stream(SpeechClassifier(2, SpeechFrontend(16, stride=4), RecurrentEncoder(16)).eval())


def test_an_encoder_of_another_width_is_refused():
    with pytest.raises(ValueError, match="RecurrentEncoder has width=32, but the tokens have width=16"):
        SpeechClassifier(2, SpeechFrontend(16), RecurrentEncoder(32))
    with pytest.raises(ValueError, match="encoder=Linear is no encoder"):
        SpeechClassifier(2, SpeechFrontend(16), nn.Linear(16, 16))
