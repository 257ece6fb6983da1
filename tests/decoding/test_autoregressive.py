"""Searches over tables of random probabilities, where every transcript can be looked at.

Shapes: B = 2 utterances, C = 4 classes: three units and the end; at most L = 3 units.
"""

import math
from dataclasses import dataclass
from functools import cache as remembered
from itertools import groupby, product

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from vitspeech.decoding.autoregressive import Hypothesis, beam_search, greedy
from vitspeech.decoding.prefix_scores import PrefixScores
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_transcriber import SpeechTranscriber

END, LONGEST, WIDE = 3, 3, 3**3 * 4
ALPHAS = (0.0, 0.6, 2.0)
START = 10  # no class: a table takes it as it comes


@remembered
def row(utterance, prefix, sharp=1.5):
    """Log-probabilities of what comes after the prefix, other ones for every prefix."""
    number = sum((unit + 1) * 5**place for place, unit in enumerate(prefix))
    generator = torch.Generator().manual_seed(1000 * number + utterance)
    return (sharp * torch.randn(END + 1, generator=generator, dtype=torch.float64)).log_softmax(-1)


@dataclass(frozen=True)
class TableCache:
    """Which utterance, and what was said of it before."""

    rows: tuple

    def select(self, indices):
        return TableCache(tuple(self.rows[index] for index in indices.tolist()))


def table_step(units, cache):
    """As a decoder: the start is no part of a prefix."""
    said = zip(cache.rows, units.tolist(), strict=True)
    rows = tuple((utterance, prefix if unit == START else (*prefix, unit)) for (utterance, prefix), unit in said)
    return torch.stack([row(*each) for each in rows]), TableCache(rows)


def tables(*utterances):
    return TableCache(tuple((utterance, ()) for utterance in utterances))


def search(*utterances, longest=LONGEST, step=table_step, **options):
    return beam_search(step, tables(*utterances), start=START, batch=len(utterances), longest=longest, **options)


def greedily(*utterances, longest=LONGEST, step=table_step):
    return greedy(step, tables(*utterances), start=START, batch=len(utterances), longest=longest)


def probability(utterance, units, ended=True):
    """log p of the table, the end included."""
    said = (*units, END) if ended else units
    return sum(row(utterance, said[:place])[unit].item() for place, unit in enumerate(said))


def ctc_rows(tokens=5, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return (1.5 * torch.randn(2, tokens, END + 1, generator=generator, dtype=torch.float64)).log_softmax(-1)


@remembered
def ctc_probabilities(utterance):
    """p of CTC for every transcript, over all paths."""
    found = {}
    for path in product(range(END + 1), repeat=5):
        spelled = tuple(unit for unit, _ in groupby(path) if unit != END)
        of_path = math.exp(sum(ctc_rows()[utterance, token, unit].item() for token, unit in enumerate(path)))
        found[spelled] = found.get(spelled, 0.0) + of_path
    return found


def normalized(total, length, alpha):
    return total / ((5 + length) / 6) ** alpha


def ranking(utterance, alpha, weight=0.0):
    """All transcripts of at most three units, the best first: (score, units, log-probability)."""
    found = []
    for units in (units for length in range(LONGEST + 1) for units in product(range(END), repeat=length)):
        total = (1 - weight) * probability(utterance, units)
        if weight:
            total += weight * math.log(ctc_probabilities(utterance)[units])
        found.append((normalized(total, len(units) + 1, alpha), units, total))
    return sorted(found, reverse=True)


def plain_beam(utterance, beam, alpha, longest=LONGEST):
    """Beam search of one utterance as the docstring has it, with lists, and without a stop."""
    live, ended = [((), 0.0)], []
    for length in range(1, longest + 2):
        every = [
            ((*units, unit), total + row(utterance, units)[unit].item())
            for units, total in live
            for unit in range(END + 1)
        ]
        every.sort(key=lambda candidate: -candidate[1])
        ended += [
            (normalized(total, length, alpha), units[:-1], total) for units, total in every[:beam] if units[-1] == END
        ]
        if length > longest:
            break
        live = [(units, total) for units, total in every if units[-1] != END][:beam]
    return max(ended, default=None), live


def same(hypothesis, expected):
    score, units, total = expected
    assert hypothesis.units == units and hypothesis.ended
    assert hypothesis.score == pytest.approx(score, abs=1e-12)
    assert hypothesis.log_probability == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("utterance", range(7))
def test_a_wide_beam_finds_the_best_of_all_transcripts(utterance, alpha):
    found = search(utterance, beam=WIDE, length_penalty=alpha)[0]
    same(found[0], ranking(utterance, alpha)[0])
    assert [hypothesis.score for hypothesis in found] == sorted((h.score for h in found), reverse=True)


@pytest.mark.parametrize("weight", [0.3, 1.0])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_with_a_scorer_a_wide_beam_finds_the_best_of_both(alpha, weight):
    scorer = PrefixScores(ctc_rows())
    found = search(0, 1, beam=WIDE, length_penalty=alpha, scorer=scorer, ctc_weight=weight)
    for utterance, hypotheses in enumerate(found):
        same(hypotheses[0], ranking(utterance, alpha, weight)[0])


def test_at_full_weight_what_the_step_finds_impossible_is_possible():
    scorer = PrefixScores(ctc_rows())
    options = {"beam": WIDE, "length_penalty": 0.0, "scorer": scorer, "ctc_weight": 1.0}
    assert search(0, 1, step=never_ends, **options) == search(0, 1, **options)


def test_lengths_and_the_scorer_change_what_is_best():
    best = [{ranking(utterance, alpha)[0][1] for alpha in ALPHAS} for utterance in range(7)]
    assert max(map(len, best)) > 1
    assert any(ranking(number, 0.0)[0][1] != ranking(number, 0.0, 0.3)[0][1] for number in range(2))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("beam", [1, 2, 3, 5, 11])
def test_stopping_early_does_not_change_the_best(beam, alpha):
    found = search(*range(11), beam=beam, length_penalty=alpha, longest=7)
    for utterance, hypotheses in enumerate(found):
        expected, live = plain_beam(utterance, beam, alpha, longest=7)
        assert len(hypotheses) <= beam
        if expected is None:
            assert [hypothesis.units for hypothesis in hypotheses] == [units for units, _ in live]
        else:
            same(hypotheses[0], expected)


def test_the_search_stops_where_nothing_can_become_better():
    seen = []

    def counting(units, cache):
        seen.append(len(units))
        return table_step(units, cache)

    search(*range(5), beam=3, length_penalty=0.0, longest=97, step=counting)
    # It begins with one row each, and goes on with those that are not done.
    assert seen[:2] == [5, 15] and seen[1:] == sorted(seen[1:], reverse=True) and seen[-1] < 15
    assert len(seen) < 30


@pytest.mark.parametrize("utterance", range(11))
def test_greedy_is_a_beam_of_one_and_takes_the_likeliest_each_time(utterance):
    found, prefix = greedily(utterance, longest=13)[0], ()
    while (unit := row(utterance, prefix).argmax().item()) != END:
        prefix = (*prefix, unit)
    same(found, (probability(utterance, prefix), prefix, probability(utterance, prefix)))
    assert search(utterance, beam=1, length_penalty=0.0, longest=13)[0] == [found]


@pytest.mark.parametrize("longest", [1, 2, 13])
def test_a_batch_is_each_utterance_by_itself(longest):
    assert greedily(*range(7), longest=longest) == [greedily(each, longest=longest)[0] for each in range(7)]
    for beam in (1, 3):
        batched = search(*range(7), beam=beam, longest=longest)
        assert batched == [search(each, beam=beam, longest=longest)[0] for each in range(7)]


def test_a_batch_with_a_scorer_is_each_utterance_by_itself():
    tokens = torch.tensor([5, 3])
    batched = search(0, 1, beam=3, scorer=PrefixScores(ctc_rows(), tokens), ctc_weight=0.4)
    for each in range(2):
        scorer = PrefixScores(ctc_rows()[[each], : tokens[each]])
        alone = search(each, beam=3, scorer=scorer, ctc_weight=0.4)[0]
        assert [hypothesis.units for hypothesis in alone] == [hypothesis.units for hypothesis in batched[each]]
        assert_close([h.score for h in alone], [h.score for h in batched[each]])


def test_without_weight_the_scorer_has_no_say():
    assert search(0, 1, scorer=PrefixScores(ctc_rows()), ctc_weight=0.0) == search(0, 1)


def never_ends(units, cache):
    log_probs, cache = table_step(units, cache)
    log_probs[:, END] = -torch.inf
    return log_probs.log_softmax(-1), cache


def test_a_step_that_never_ends_is_cut_at_the_longest_length():
    found = greedily(0, 1, longest=5, step=never_ends)
    assert [(len(hypothesis.units), hypothesis.ended) for hypothesis in found] == [(5, False)] * 2
    for hypotheses in search(0, 1, beam=3, longest=5, step=never_ends):
        assert [(len(hypothesis.units), hypothesis.ended) for hypothesis in hypotheses] == [(5, False)] * 3
        best = hypotheses[0]
        assert best.score == pytest.approx(normalized(best.log_probability, 5, 0.6))
    one = search(0, 1, beam=1, longest=5, step=never_ends, length_penalty=0.0)
    assert [hypotheses[0] for hypotheses in one] == found


def test_an_impossible_end_is_no_hypothesis_however_wide_the_beam():
    for hypotheses in search(0, 1, beam=WIDE, longest=2, step=never_ends):
        assert [(len(hypothesis.units), hypothesis.ended) for hypothesis in hypotheses] == [(2, False)] * 3**2


def test_a_step_is_never_told_that_the_end_was_said():
    def careful(units, cache):
        assert (units != END).all()
        return table_step(units, cache)

    assert greedily(*range(7), longest=13, step=careful) == greedily(*range(7), longest=13)
    assert search(*range(7), longest=13, step=careful) == search(*range(7), longest=13)


def test_what_is_cut_has_the_probability_of_its_units():
    cut = [utterance for utterance in range(11) if len(greedily(utterance, longest=13)[0].units) > 2]
    assert cut
    for utterance in cut:
        found = greedily(utterance, longest=2)[0]
        assert not found.ended and len(found.units) == 2
        assert found.log_probability == pytest.approx(probability(utterance, found.units, ended=False))


def test_an_end_after_the_longest_length_still_counts():
    for utterance in range(11):
        found = greedily(utterance, longest=13)[0]
        if found.units:
            assert greedily(utterance, longest=len(found.units))[0] == found


def test_a_step_that_allows_nothing_gives_what_came_before():
    def nothing(units, cache):
        log_probs, cache = table_step(units, cache)
        return torch.full_like(log_probs, -torch.inf), cache

    assert search(0, beam=2, step=nothing) == [[Hypothesis((), 0.0, 0.0, False)]]


def network_and_utterances():
    torch.manual_seed(1)
    tokens = SpeechTokens(12, mels=17, stride=3)
    network = SpeechTranscriber(7, tokens, ctc=True, encoder={"depth": 1, "heads": 3}).double().eval()
    with torch.no_grad():
        network.head.weight.mul_(5)  # otherwise a fresh network finds everything about as likely
    return network, torch.randn(3, 16_000, dtype=torch.float64), torch.tensor([16_000, 5000, 11_000])


def teacher_forced(network, waveform, units, ended):
    """log p of the units, and of the end where there is one, all said at once; and CTC's log-probabilities."""
    output = network(waveform, None, torch.tensor([units], dtype=torch.long))
    said = torch.tensor([*units, *[network.start_unit] * ended])
    rows = output.logits[0].log_softmax(-1)
    return rows[: len(said)].gather(1, said[:, None]).sum().item(), output.ctc_logits.log_softmax(-1)


@torch.no_grad()
def test_a_transcribers_hypotheses_have_the_probability_of_teacher_forcing():
    network, waveforms, lengths = network_and_utterances()
    cache = network.start(*network.encode(waveforms, lengths))
    options = {"start": network.start_unit, "batch": 3, "longest": 11}
    found = list(enumerate(greedy(network.step, cache, **options)))
    for alpha in ALPHAS:
        best = beam_search(network.step, cache, beam=5, length_penalty=alpha, **options)
        found += [(number, hypothesis) for number, hypotheses in enumerate(best) for hypothesis in hypotheses]
    assert {hypothesis.ended for _, hypothesis in found} == {False, True}
    assert len({hypothesis.units for _, hypothesis in found}) > 7
    for number, hypothesis in found:
        alone = waveforms[[number], : lengths[number]]
        expected, _ = teacher_forced(network, alone, hypothesis.units, hypothesis.ended)
        assert hypothesis.log_probability == pytest.approx(expected, abs=1e-10)


@torch.no_grad()
def test_joint_hypotheses_have_the_weighted_probability_of_both_heads():
    network, waveforms, lengths = network_and_utterances()
    encoded, padding = network.encode(waveforms, lengths)
    scorer = PrefixScores(network.forward_ctc(encoded).log_softmax(-1), padding.sum(1))
    options = {"start": network.start_unit, "batch": 3, "longest": 11, "scorer": scorer, "ctc_weight": 0.3}
    found = beam_search(network.step, network.start(encoded, padding), beam=7, **options)
    ended = [(number, each) for number, hypotheses in enumerate(found) for each in hypotheses if each.ended]
    assert ended
    for number, hypothesis in ended:
        alone, units = waveforms[[number], : lengths[number]], hypothesis.units
        attention, rows = teacher_forced(network, alone, units, True)
        targets, tokens = torch.tensor([units], dtype=torch.long).view(1, -1), torch.tensor([rows.shape[1]])
        loss = F.ctc_loss(rows.transpose(0, 1), targets, tokens, torch.tensor([len(units)]), blank=7, reduction="sum")
        assert hypothesis.log_probability == pytest.approx(0.7 * attention - 0.3 * loss.item(), abs=1e-10)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"beam": 0}, "beam=0 is below 1"),
        ({"longest": 0}, "longest=0 is below 1"),
        ({"length_penalty": -0.1}, "length_penalty=-0.1 is negative"),
        ({"ctc_weight": 0.5}, "ctc_weight=0.5 needs a scorer"),
        ({"ctc_weight": 1.5}, "ctc_weight=1.5 is not within 0 .. 1"),
        ({"ctc_weight": -0.5, "scorer": PrefixScores(ctc_rows())}, "ctc_weight=-0.5 is not within 0 .. 1"),
        ({"scorer": PrefixScores(ctc_rows())}, "the scorer is for 2 utterances, not for batch=1"),
    ],
)
def test_options_that_make_no_sense_are_named(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        search(0, **options)


def test_greedy_refuses_a_length_below_one():
    with pytest.raises(ValueError, match=r"^longest=0 is below 1$"):
        greedily(0, longest=0)
