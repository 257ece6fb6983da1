"""Prefix probabilities against the sum over all paths.

Shapes: B = 2 utterances of 5 and 3 tokens, T = 5, C = 3 classes: two units and the blank.
"""

from itertools import groupby, pairwise, product

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
    """Every transcript with the sum of its paths' probabilities, one path after the other: (T, C) -> a dictionary."""
    found, blank = {}, rows.shape[1] - 1
    for path in product(range(blank + 1), repeat=len(rows)):
        spelled = tuple(unit for unit, _ in groupby(path) if unit != blank)
        probability = torch.stack([row[unit] for row, unit in zip(rows, path, strict=True)]).sum().exp().item()
        found[spelled] = found.get(spelled, 0.0) + probability
    return found


def beginning_with(found, prefix):
    return sum(probability for spelled, probability in found.items() if spelled[: len(prefix)] == prefix)


def spelled_out(scorer, prefix):
    """The state of each utterance with the prefix, unit by unit."""
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
def test_prefixes_have_the_probability_of_all_paths_that_spell_them(scores, prefix):
    scorer, every = scores
    result = scorer.extend(spelled_out(scorer, prefix)).exp()
    expected = [
        [*(beginning_with(found, (*prefix, unit)) for unit in range(BLANK)), found.get(prefix, 0.0)] for found in every
    ]
    assert_close(result, torch.tensor(expected, dtype=torch.float64), atol=1e-14, rtol=1e-12)


def test_there_are_prefixes_with_repeats_and_too_long_ones():
    assert any(first == second for prefix in PREFIXES for first, second in pairwise(prefix))
    assert max(map(len, PREFIXES)) > min(TOKENS)


@pytest.mark.parametrize("transcript", [(), (3,), (1, 1, 4), (0, 2, 2, 2, 5), (6, 5, 4, 3, 2, 1, 0)])
def test_the_last_column_is_the_transcripts_ctc_loss(transcript):
    rows, tokens = log_probs(3, 17, 8), torch.tensor([17, 11, 7])
    result = PrefixScores(rows, tokens)
    result = result.extend(spelled_out(result, transcript))[:, -1]
    targets = torch.tensor([transcript] * 3).view(3, -1)
    lengths = torch.full((3,), len(transcript))
    expected = -F.ctc_loss(rows.transpose(0, 1), targets, tokens, lengths, blank=7, reduction="none")
    assert_close(result, expected, atol=1e-10, rtol=1e-12)


@pytest.mark.parametrize("prefix", [(), (4,), (4, 4), (4, 1, 1)])
def test_the_columns_share_the_prefixs_own_probability(prefix):
    scorer = PrefixScores(log_probs(3, 17, 8), torch.tensor([17, 11, 7]))
    own = torch.zeros(3, dtype=torch.float64)
    if prefix:
        own = scorer.extend(spelled_out(scorer, prefix[:-1]))[:, prefix[-1]]
    assert_close(scorer.extend(spelled_out(scorer, prefix)).logsumexp(1), own, atol=1e-12, rtol=1e-12)


def test_a_padded_batch_equals_each_utterance_alone():
    rows, tokens = log_probs(3, 17, 8), (11, 17, 5)
    batched, choice = PrefixScores(rows, torch.tensor(tokens)), torch.tensor([3, 3, 6])
    state, alone = batched.start(), [PrefixScores(rows[[b], : tokens[b]]) for b in range(3)]
    states = [scorer.start() for scorer in alone]
    for _ in range(3):
        expected = torch.cat([scorer.extend(each) for scorer, each in zip(alone, states, strict=True)])
        assert_close(batched.extend(state), expected, atol=1e-12, rtol=1e-12)
        state = batched.select(state, torch.arange(3), choice)
        states = [alone[b].select(states[b], torch.tensor([0]), choice[[b]]) for b in range(3)]


def test_rows_may_be_chosen_in_any_order_and_several_times():
    scorer = PrefixScores(log_probs(2, 11, 5), torch.tensor([11, 7]))
    state = scorer.select(scorer.start(3), torch.arange(6), torch.tensor([0, 1, 2, 3, 0, 1]))
    chosen = scorer.select(state, torch.tensor([4, 0, 0, 5]), torch.tensor([0, 0, 3, 2]))
    alone = spelled_out(scorer, (0, 0)), spelled_out(scorer, (0, 3)), spelled_out(scorer, (1, 2))
    expected = [scorer.extend(alone[which])[utterance] for which, utterance in ((0, 1), (0, 0), (1, 0), (2, 1))]
    assert chosen.utterances.tolist() == [1, 0, 0, 1] and chosen.last.tolist() == [0, 0, 3, 2]
    assert_close(scorer.extend(chosen), torch.stack(expected))


def test_beams_start_one_utterance_after_the_other():
    scorer = PrefixScores(log_probs(2, 5, 3), torch.tensor(TOKENS))
    assert scorer.start(3).utterances.tolist() == [0, 0, 0, 1, 1, 1]
    assert torch.equal(scorer.extend(scorer.start(3)), scorer.extend(scorer.start()).repeat_interleave(3, 0))


def test_impossible_units_and_no_tokens_give_no_nan():
    rows = torch.full((2, 5, 3), -torch.inf)
    rows[..., 1] = 0
    scorer = PrefixScores(rows, torch.tensor([5, 0]))
    # Unit 1 and nothing else, as one unit; of no tokens the empty transcript is sure.
    assert scorer.extend(scorer.start()).exp().tolist() == [[0, 1, 0], [0, 0, 1]]
    assert scorer.extend(spelled_out(scorer, (1,))).exp().tolist() == [[0, 0, 1], [0, 0, 0]]
    assert scorer.extend(spelled_out(scorer, (1, 1))).exp().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_single_precision_is_close_over_many_tokens():
    rows, transcript = log_probs(2, 499, 13), [unit % 11 for unit in range(37)]
    double, single = PrefixScores(rows), PrefixScores(rows.float())
    expected = double.extend(spelled_out(double, transcript))
    result = single.extend(spelled_out(single, transcript))
    assert result.dtype == torch.float32
    assert_close(result.double(), expected, atol=0, rtol=1e-5)
    half = PrefixScores(rows.bfloat16())
    assert half.extend(half.start()).dtype == torch.float32


def test_what_it_is_given_stays_as_it_was():
    rows = log_probs(2, 5, 3).requires_grad_()
    before = rows.detach().clone()
    scorer = PrefixScores(rows, torch.tensor(TOKENS))
    state = scorer.start()
    first = scorer.extend(state)
    scorer.select(state, torch.arange(2), torch.tensor([0, 1]))
    assert torch.equal(rows, before) and torch.equal(scorer.extend(state), first)
    assert not first.requires_grad


@pytest.mark.parametrize("tokens", [[5, 6], [5, -1], [5, 3, 2]])
def test_tokens_that_do_not_fit_are_named(tokens):
    with pytest.raises(ValueError, match=rf"tokens=\[{', '.join(map(str, tokens))}\] are not 2 numbers within 0 .. 5"):
        PrefixScores(log_probs(2, 5, 3), torch.tensor(tokens))


def test_another_shape_is_named():
    with pytest.raises(ValueError, match=r"log_probs of shape \(5, 3\) is not \(B, T, C\)"):
        PrefixScores(log_probs(5, 3))
