"""Symbols in, symbols out: padding that nothing depends on, steps that equal teacher forcing, tied embeddings.

Shapes: B = 3 sequences of up to N = 7 of 5 symbols, D = 12, H = 3, U = 4 units, L = 5.
"""

import math

import pytest
import torch
from torch.testing import assert_close

from vitspeech.encoders import RecurrentEncoder
from vitspeech.inference.decode import transcribe_batch
from vitspeech.inference.transcribe import GREEDY
from vitspeech.models import Seq2Seq
from vitspeech.tasks.optimizer import parameter_groups

SYMBOLS = torch.tensor([[4, 0, 0, 1, 3, 2, 4], [2, 2, 1, -1, -1, -1, -1], [3, -1, -1, -1, -1, -1, -1]])
LENGTHS = torch.tensor([7, 3, 1])
GIVEN = torch.tensor([[3, 3, 0, 2, 1], [2, 0, 1, -1, -1], [-1, -1, -1, -1, -1]])
UNITS = (5, 3, 0)
POSITIONS = ("sinusoidal", "learned", "relative", "rotary", None)


def seq2seq(**arguments):
    torch.manual_seed(0)
    arguments = {"encoder": {"depth": 2, "heads": 3}, **arguments}
    return Seq2Seq(4, 5, 12, **arguments).double().eval()


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("tied", [False, True])
@torch.no_grad()
def test_a_sequence_gives_the_same_logits_alone_and_in_a_batch_and_step_by_step(positions, tied):
    network = seq2seq(positions=positions, tied=tied)
    output = network(SYMBOLS, LENGTHS, GIVEN)
    assert output.logits.shape == (3, 6, 5) and output.ctc_logits is None and output.tokens.tolist() == [7, 3, 1]
    assert_close(network(SYMBOLS, None, GIVEN).logits, output.logits)
    cache = network.start(*network.encode(SYMBOLS, LENGTHS))
    rows, units = [], torch.full((3,), network.start_unit)
    for following in (*GIVEN.clamp(min=0).T, None):
        row, cache = network.step(units, cache)
        rows.append(row)
        units = following
    assert_close(torch.stack(rows, 1), output.logits.log_softmax(-1), atol=1e-10, rtol=1e-10)
    for number, length in enumerate(LENGTHS.tolist()):
        alone = network(SYMBOLS[[number], :length], None, GIVEN[[number], : UNITS[number]])
        assert_close(output.logits[[number], : UNITS[number] + 1], alone.logits, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_positions_hold_for_encoder_and_decoder(positions):
    """Without them the encoded symbols of a reversed sequence are the same in reverse order, otherwise they are not."""
    network = seq2seq(positions=positions, decoder={"depth": 1, "heads": 3})
    encoded, _ = network.encode(SYMBOLS[:1])
    reversed_too, _ = network.encode(SYMBOLS[:1].flip(1))
    assert torch.allclose(encoded, reversed_too.flip(1)) == (positions is None)
    first = network.forward_decoder(encoded, None, torch.tensor([[1, 2, 0]]))
    second = network.forward_decoder(encoded, None, torch.tensor([[2, 1, 0]]))
    if positions is None:  # the last row has the same units before it, in another order
        assert_close(first[:, -1], second[:, -1])
    else:
        assert not torch.isclose(first[:, -1], second[:, -1]).all()


def test_a_tied_head_shares_the_embedding_which_is_scaled_as_in_the_paper():
    network = seq2seq(tied=True)
    assert network.head.weight is network.embedding.weight
    rows = network.embed(torch.arange(5))
    assert_close(rows, math.sqrt(12) * network.embedding.weight)
    torch.manual_seed(0)
    wide = Seq2Seq(500, 5, 64, {"depth": 1}, tied=True)
    assert abs(wide.embed(torch.arange(500)).std().item() - 1) < 0.02
    output = network(SYMBOLS, LENGTHS, GIVEN)
    output.logits.square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    groups = parameter_groups(network)
    placed = [id(parameter) for group in groups for parameter in group["params"]]
    assert len(placed) == len(set(placed)) == len(list(network.parameters()))


@torch.no_grad()
def test_cross_attention_has_a_row_for_each_unit_and_the_end_and_none_on_padding():
    network = seq2seq(decoder={"depth": 3, "heads": 2})
    weights = network.cross_attention(*network.encode(SYMBOLS, LENGTHS), GIVEN)
    assert weights.shape == (3, 3, 2, 6, 7)
    assert_close(weights.sum(-1), torch.ones(3, 3, 2, 6, dtype=torch.float64))
    assert not weights[:, 1, ..., 3:].any() and not weights[:, 2, ..., 1:].any()


@torch.no_grad()
def test_outputs_may_be_longer_than_inputs():
    network = seq2seq()
    network.head.bias[:] = torch.tensor([0.0, 50, 0, 0, -50])
    (transcript,) = transcribe_batch(network, list("abcd"), SYMBOLS[1:2, :3], LENGTHS[1:2], GREEDY)
    assert transcript.text == " ".join("b" * 14)


def test_a_recurrent_encoder_takes_the_place_of_attention():
    network = seq2seq(encoder=RecurrentEncoder(12, depth=1), positions=None)
    assert network(SYMBOLS, LENGTHS, GIVEN).logits.shape == (3, 6, 5)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Seq2Seq(), "units=0"),
        (lambda: seq2seq(decoder=torch.nn.Linear(2, 2)), "decoder=Linear is no decoder"),
        (lambda: seq2seq().encode(torch.tensor([[1], [-1]])), "sequence 1 of the batch is empty"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
