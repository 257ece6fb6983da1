"""Sequences of symbols that are given as text."""

import pytest
import torch

import vitspeech
from vitspeech.checkpoint import Model
from vitspeech.inference.transcribe import read_symbols
from vitspeech.models import Seq2Seq

DIGITS = [*"0123456789", "+"]
NUMBERS = [str(number) for number in range(12)]


@pytest.mark.parametrize("text", ["305+78", "305 + 78", " 3 0 5\n+7\t8 "])
def test_spaces_may_be_left_out_between_single_characters(text):
    assert read_symbols(text, DIGITS) == [3, 0, 5, 10, 7, 8]


def test_longer_symbols_need_spaces():
    assert read_symbols("11 1 0", NUMBERS) == [11, 1, 0]


@pytest.mark.parametrize(
    "text, symbols, message",
    [
        ("30-5", DIGITS, "'-' of '30-5' is not a symbol of the model; its symbols are 0, 1, 2, .*, 9, +"),
        ("110", NUMBERS, "'110' of '110' is not a symbol"),
        ("  ", DIGITS, "a sequence of 0 symbols; it must have 1 .. 10,000"),
        ("1" * 10_001, DIGITS, "a sequence of 10,001 symbols"),
        ("1", [f"s{number}" for number in range(60)], "its symbols are s0, .*, s49, …$"),
    ],
)
def test_what_is_not_a_sequence_is_refused_in_one_line(text, symbols, message):
    with pytest.raises(vitspeech.InputError, match=message.replace("+", r"\+")) as raised:
        read_symbols(text, symbols)
    assert "\n" not in str(raised.value)


def model(network, labels, symbols):
    return Model(network, labels, {"symbols": symbols}, {}, {}, "vitspeech.Transcription")


@torch.no_grad()
def test_outputs_are_those_of_greedy_search_whatever_the_other_sequences():
    torch.manual_seed(0)
    network = Seq2Seq(10, 11, 12, {"depth": 1, "heads": 3}).eval()
    network.head.weight.mul_(5)
    first, second = vitspeech.transcribe_symbols(model(network, DIGITS[:10], DIGITS), ["305+78", "1"])
    units = []
    while len(units) < 20:
        logits = network(torch.tensor([[3, 0, 5, 10, 7, 8]]), None, torch.tensor([units], dtype=torch.long)).logits
        if (unit := int(logits[0, -1].argmax())) == 10:
            break
        units.append(unit)
    assert list(first.indices) == units and first.text == " ".join(map(str, units)) and units
    assert second.indices != first.indices
