"""Greedy and beam search over tables of random probabilities, compared with enumeration of all transcripts.

Shapes: B = 2 utterances, C = 4 classes: three units and the end; at most L = 3 units.
"""

import math
from dataclasses import dataclass
from functools import cache as cached
from itertools import groupby, product

import pytest
import torch
from torch.nn import functional as F

from vitspeech.decoding.autoregressive import Hypothesis, beam_search, greedy
from vitspeech.decoding.prefix_scores import PrefixScores
from vitspeech.frontends import SpeechFrontend
from vitspeech.models.speech_transcriber import SpeechTranscriber

END, LONGEST, WIDE = 3, 3, 3**3 * 4
ALPHAS = (0.0, 0.6, 2.0)
START = 10  # not a class; tables accept it


@cached
def row(utterance, prefix, sharp=1.5):
    """Random log-probabilities of the next unit, different for each prefix."""
    number = sum((unit + 1) * 5**place for place, unit in enumerate(prefix))
    generator = torch.Generator().manual_seed(1000 * number + utterance)
    return (sharp * torch.randn(END + 1, generator=generator, dtype=torch.float64)).log_softmax(-1)


@dataclass(frozen=True)
class TableCache:
    """The utterance and the prefix of each row."""

    rows: tuple

    def select(self, indices):
        return TableCache(tuple(self.rows[index] for index in indices.tolist()))


def table_step(units, cache):
    """A step like that of a decoder; the start symbol is not part of a prefix."""
    extended = zip(cache.rows, units.tolist(), strict=True)
    rows = tuple((utterance, prefix if unit == START else (*prefix, unit)) for (utterance, prefix), unit in extended)
    return torch.stack([row(*each) for each in rows]), TableCache(rows)


def tables(*utterances):
    return TableCache(tuple((utterance, ()) for utterance in utterances))


def run_beam(*utterances, longest=LONGEST, step=table_step, **options):
    limits = [longest] * len(utterances)
    return beam_search(step, tables(*utterances), start=START, longest=limits, **options)


def run_greedy(*utterances, longest=LONGEST, step=table_step):
    return greedy(step, tables(*utterances), start=START, longest=[longest] * len(utterances))


def probability(utterance, units, ended=True):
    """log p of the units by the table, including the end if `ended`."""
    sequence = (*units, END) if ended else units
    return sum(row(utterance, sequence[:length])[unit].item() for length, unit in enumerate(sequence))


def ctc_rows(tokens=5, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return (1.5 * torch.randn(2, tokens, END + 1, generator=generator, dtype=torch.float64)).log_softmax(-1)


@cached
def ctc_probabilities(utterance):
    """CTC's probability of each transcript, summed over its paths."""
    probabilities = {}
    for path in product(range(END + 1), repeat=5):
        units = tuple(unit for unit, _ in groupby(path) if unit != END)
        path_probability = math.exp(sum(ctc_rows()[utterance, token, unit].item() for token, unit in enumerate(path)))
        probabilities[units] = probabilities.get(units, 0.0) + path_probability
    return probabilities


def normalized(total, length, alpha):
    return total / ((5 + length) / 6) ** alpha


def ranking(utterance, alpha, weight=0.0):
    """All transcripts of at most three units, the best first: (score, units, log-probability)."""
    transcripts = []
    for units in (units for length in range(LONGEST + 1) for units in product(range(END), repeat=length)):
        total = (1 - weight) * probability(utterance, units)
        if weight:
            total += weight * math.log(ctc_probabilities(utterance)[units])
        transcripts.append((normalized(total, len(units) + 1, alpha), units, total))
    return sorted(transcripts, reverse=True)


def plain_beam(utterance, beam, alpha, longest=LONGEST):
    """Beam search of one utterance as documented, with lists and without early stopping."""
    live, ended = [((), 0.0)], []
    for length in range(1, longest + 2):
        extended = [
            ((*units, unit), total + row(utterance, units)[unit].item())
            for units, total in live
            for unit in range(END + 1)
        ]
        extended.sort(key=lambda candidate: -candidate[1])
        ended += [
            (normalized(total, length, alpha), units[:-1], total)
            for units, total in extended[:beam]
            if units[-1] == END
        ]
        if length > longest:
            break
        live = [(units, total) for units, total in extended if units[-1] != END][:beam]
    return max(ended, default=None), live


def assert_same(hypothesis, expected):
    score, units, total = expected
    assert hypothesis.units == units and hypothesis.ended
    assert hypothesis.score == pytest.approx(score, abs=1e-12)
    assert hypothesis.log_probability == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("utterance", range(7))
def test_a_beam_of_all_prefixes_finds_the_best_transcript(utterance, alpha):
    hypotheses = run_beam(utterance, beam=WIDE, length_penalty=alpha)[0]
    assert_same(hypotheses[0], ranking(utterance, alpha)[0])
    assert [hypothesis.score for hypothesis in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


@pytest.mark.parametrize("weight", [0.3, 1.0])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_joint_beam_of_all_prefixes_finds_the_best_transcript(alpha, weight):
    scorer = PrefixScores(ctc_rows())
    beams = run_beam(0, 1, beam=WIDE, length_penalty=alpha, scorer=scorer, ctc_weight=weight)
    for utterance, hypotheses in enumerate(beams):
        assert_same(hypotheses[0], ranking(utterance, alpha, weight)[0])


def test_with_ctc_weight_one_impossible_units_of_the_step_are_possible():
    scorer = PrefixScores(ctc_rows())
    options = {"beam": WIDE, "length_penalty": 0.0, "scorer": scorer, "ctc_weight": 1.0}
    assert run_beam(0, 1, step=never_ends, **options) == run_beam(0, 1, **options)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("beam", [1, 2, 3, 5, 11])
def test_early_stopping_does_not_change_the_best_hypothesis(beam, alpha):
    beams = run_beam(*range(11), beam=beam, length_penalty=alpha, longest=7)
    for utterance, hypotheses in enumerate(beams):
        expected, live = plain_beam(utterance, beam, alpha, longest=7)
        assert len(hypotheses) <= beam
        if expected is None:
            assert [hypothesis.units for hypothesis in hypotheses] == [units for units, _ in live]
        else:
            assert_same(hypotheses[0], expected)


def test_the_search_stops_when_no_prefix_can_improve():
    sizes = []

    def counting(units, cache):
        sizes.append(len(units))
        return table_step(units, cache)

    run_beam(*range(5), beam=3, length_penalty=0.0, longest=97, step=counting)
    # The first step has one row per utterance, later ones three per utterance that is still searched.
    assert sizes[:2] == [5, 15] and sizes[1:] == sorted(sizes[1:], reverse=True) and sizes[-1] < 15
    assert len(sizes) < 30


@pytest.mark.parametrize("utterance", range(11))
def test_greedy_search_takes_the_most_probable_unit_and_equals_a_beam_of_one(utterance):
    hypothesis, prefix = run_greedy(utterance, longest=13)[0], ()
    while (unit := row(utterance, prefix).argmax().item()) != END:
        prefix = (*prefix, unit)
    assert_same(hypothesis, (probability(utterance, prefix), prefix, probability(utterance, prefix)))
    assert run_beam(utterance, beam=1, length_penalty=0.0, longest=13)[0] == [hypothesis]


def test_every_utterance_has_its_own_limit():
    longest = [1, 13, 2, 5, 1, 3, 8]
    alone = [run_greedy(each, longest=limit)[0] for each, limit in enumerate(longest)]
    assert greedy(table_step, tables(*range(7)), start=START, longest=longest) == alone
    assert {each.ended for each in alone} == {False, True}
    for beam in (1, 3):
        alone = [run_beam(each, beam=beam, longest=limit)[0] for each, limit in enumerate(longest)]
        assert beam_search(table_step, tables(*range(7)), start=START, longest=longest, beam=beam) == alone


def never_ends(units, cache):
    log_probs, cache = table_step(units, cache)
    log_probs[:, END] = -torch.inf
    return log_probs.log_softmax(-1), cache


def test_a_decoder_without_an_end_is_cut_at_the_maximum_length():
    greedy_hypotheses = run_greedy(0, 1, longest=5, step=never_ends)
    assert [(len(hypothesis.units), hypothesis.ended) for hypothesis in greedy_hypotheses] == [(5, False)] * 2
    for hypotheses in run_beam(0, 1, beam=3, longest=5, step=never_ends):
        assert [(len(hypothesis.units), hypothesis.ended) for hypothesis in hypotheses] == [(5, False)] * 3
        best = hypotheses[0]
        assert best.score == pytest.approx(normalized(best.log_probability, 5, 0.6))
    beams = run_beam(0, 1, beam=1, longest=5, step=never_ends, length_penalty=0.0)
    assert [hypotheses[0] for hypotheses in beams] == greedy_hypotheses


def test_a_step_without_possible_units_returns_the_prefix():
    def nothing(units, cache):
        log_probs, cache = table_step(units, cache)
        return torch.full_like(log_probs, -torch.inf), cache

    assert run_beam(0, beam=2, step=nothing) == [[Hypothesis((), 0.0, 0.0, False)]]


def network_and_utterances():
    torch.manual_seed(1)
    tokens = SpeechFrontend(12, mels=17, stride=3)
    network = SpeechTranscriber(7, tokens, ctc=True, encoder={"depth": 1, "heads": 3}).double().eval()
    with torch.no_grad():
        network.head.weight.mul_(5)  # an untrained network is otherwise nearly uniform
    return network, torch.randn(3, 16_000, dtype=torch.float64), torch.tensor([16_000, 5000, 11_000])


def teacher_forced(network, waveform, units, ended):
    """log p of the units (and of the end if `ended`) by teacher forcing, and CTC's log-probabilities."""
    output = network(waveform, None, torch.tensor([units], dtype=torch.long))
    targets = torch.tensor([*units, *[network.start_unit] * ended])
    rows = output.logits[0].log_softmax(-1)
    return rows[: len(targets)].gather(1, targets[:, None]).sum().item(), output.ctc_logits.log_softmax(-1)


@torch.no_grad()
def test_a_transcribers_hypotheses_have_the_probability_of_teacher_forcing():
    network, waveforms, lengths = network_and_utterances()
    cache = network.start(*network.encode(waveforms, lengths))
    options = {"start": network.start_unit, "longest": [11] * 3}
    numbered = list(enumerate(greedy(network.step, cache, **options)))
    for alpha in ALPHAS:
        beams = beam_search(network.step, cache, beam=5, length_penalty=alpha, **options)
        numbered += [(number, hypothesis) for number, hypotheses in enumerate(beams) for hypothesis in hypotheses]
    assert {hypothesis.ended for _, hypothesis in numbered} == {False, True}
    assert len({hypothesis.units for _, hypothesis in numbered}) > 7
    for number, hypothesis in numbered:
        alone = waveforms[[number], : lengths[number]]
        expected, _ = teacher_forced(network, alone, hypothesis.units, hypothesis.ended)
        assert hypothesis.log_probability == pytest.approx(expected, abs=1e-10)


@torch.no_grad()
def test_joint_hypotheses_have_the_weighted_probability_of_both_heads():
    network, waveforms, lengths = network_and_utterances()
    encoded, padding = network.encode(waveforms, lengths)
    scorer = PrefixScores(network.forward_ctc(encoded).log_softmax(-1), padding.sum(1))
    options = {"start": network.start_unit, "longest": [11] * 3, "scorer": scorer, "ctc_weight": 0.3}
    beams = beam_search(network.step, network.start(encoded, padding), beam=7, **options)
    ended = [(number, each) for number, hypotheses in enumerate(beams) for each in hypotheses if each.ended]
    assert ended
    for number, hypothesis in ended:
        alone, units = waveforms[[number], : lengths[number]], hypothesis.units
        attention, rows = teacher_forced(network, alone, units, True)
        targets, tokens = torch.tensor([units], dtype=torch.long).view(1, -1), torch.tensor([rows.shape[1]])
        loss = F.ctc_loss(rows.transpose(0, 1), targets, tokens, torch.tensor([len(units)]), blank=7, reduction="sum")
        assert hypothesis.log_probability == pytest.approx(0.7 * attention - 0.3 * loss.item(), abs=1e-10)
