"""CTC prefix probabilities compared with the sum over all paths.

Shapes: B = 2 utterances of 5 and 3 tokens, T = 5, C = 3 classes: two units and the blank.
"""

from itertools import groupby, product

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.decoding.prefix_scores import PrefixScores

BLANK = 2
TOKENS = (5, 3)


def log_probs(*shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).log_softmax(-1)


def transcripts(rows):
    """The probability of each transcript, summed over its paths: (T, C) -> a dictionary."""
    probabilities, blank = {}, rows.shape[1] - 1
    for path in product(range(blank + 1), repeat=len(rows)):
        units = tuple(unit for unit, _ in groupby(path) if unit != blank)
        probability = torch.stack([row[unit] for row, unit in zip(rows, path, strict=True)]).sum().exp().item()
        probabilities[units] = probabilities.get(units, 0.0) + probability
    return probabilities


def beginning_with(probabilities, prefix):
    return sum(probability for units, probability in probabilities.items() if units[: len(prefix)] == prefix)


def state_after(scorer, prefix):
    """The state of each utterance after the units of the prefix."""
    state = scorer.start()
    for unit in prefix:
        state = scorer.select(state, torch.arange(scorer.batch), torch.full((scorer.batch,), unit))
    return state


PREFIXES = [prefix for length in range(5) for prefix in product(range(BLANK), repeat=length)]


@pytest.fixture(scope="module")
def scores():
    rows = log_probs(2, 5, 3)
    every = [transcripts(rows[number, :tokens]) for number, tokens in enumerate(TOKENS)]
    return PrefixScores(rows, torch.tensor(TOKENS)), every


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_probability_of_a_prefix_is_the_sum_over_its_transcripts(scores, prefix):
    scorer, every = scores
    result = scorer.extend(state_after(scorer, prefix)).exp()
    expected = [
        [*(beginning_with(probabilities, (*prefix, unit)) for unit in range(BLANK)), probabilities.get(prefix, 0.0)]
        for probabilities in every
    ]
    assert_close(result, torch.tensor(expected, dtype=torch.float64), atol=1e-14, rtol=1e-12)


@pytest.mark.parametrize("transcript", [(), (3,), (1, 1, 4), (0, 2, 2, 2, 5), (6, 5, 4, 3, 2, 1, 0)])
def test_the_last_column_is_the_negative_ctc_loss(transcript):
    rows, tokens = log_probs(3, 17, 8), torch.tensor([17, 11, 7])
    result = PrefixScores(rows, tokens)
    result = result.extend(state_after(result, transcript))[:, -1]
    targets = torch.tensor([transcript] * 3).view(3, -1)
    lengths = torch.full((3,), len(transcript))
    expected = -F.ctc_loss(rows.transpose(0, 1), targets, tokens, lengths, blank=7, reduction="none")
    assert_close(result, expected, atol=1e-10, rtol=1e-12)


def test_a_padded_batch_equals_single_utterances():
    rows, tokens = log_probs(3, 17, 8), (11, 17, 5)
    batched, units = PrefixScores(rows, torch.tensor(tokens)), torch.tensor([3, 3, 6])
    state, alone = batched.start(), [PrefixScores(rows[[b], : tokens[b]]) for b in range(3)]
    states = [scorer.start() for scorer in alone]
    for _ in range(3):
        expected = torch.cat([scorer.extend(each) for scorer, each in zip(alone, states, strict=True)])
        assert_close(batched.extend(state), expected, atol=1e-12, rtol=1e-12)
        state = batched.select(state, torch.arange(3), units)
        states = [alone[b].select(states[b], torch.tensor([0]), units[[b]]) for b in range(3)]


def test_rows_may_be_selected_in_any_order_and_repeatedly():
    scorer = PrefixScores(log_probs(2, 11, 5), torch.tensor([11, 7]))
    state = scorer.select(scorer.start(3), torch.arange(6), torch.tensor([0, 1, 2, 3, 0, 1]))
    selected = scorer.select(state, torch.tensor([4, 0, 0, 5]), torch.tensor([0, 0, 3, 2]))
    alone = state_after(scorer, (0, 0)), state_after(scorer, (0, 3)), state_after(scorer, (1, 2))
    expected = [scorer.extend(alone[which])[utterance] for which, utterance in ((0, 1), (0, 0), (1, 0), (2, 1))]
    assert selected.utterances.tolist() == [1, 0, 0, 1] and selected.last.tolist() == [0, 0, 3, 2]
    assert_close(scorer.extend(selected), torch.stack(expected))


def test_impossible_units_and_empty_utterances_give_no_nan():
    rows = torch.full((2, 5, 3), -torch.inf)
    rows[..., 1] = 0
    scorer = PrefixScores(rows, torch.tensor([5, 0]))
    # Only unit 1, once, is possible; without tokens the empty transcript has probability 1.
    assert scorer.extend(scorer.start()).exp().tolist() == [[0, 1, 0], [0, 0, 1]]
    assert scorer.extend(state_after(scorer, (1,))).exp().tolist() == [[0, 0, 1], [0, 0, 0]]
    assert scorer.extend(state_after(scorer, (1, 1))).exp().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_single_precision_is_close_over_many_tokens():
    rows, transcript = log_probs(2, 499, 13), [unit % 11 for unit in range(37)]
    double, single = PrefixScores(rows), PrefixScores(rows.float())
    expected = double.extend(state_after(double, transcript))
    result = single.extend(state_after(single, transcript))
    assert result.dtype == torch.float32
    assert_close(result.double(), expected, atol=0, rtol=1e-5)
    half = PrefixScores(rows.bfloat16())
    assert half.extend(half.start()).dtype == torch.float32
