"""Runs of logits: those of the whole are those of its parts, and a run's mean probability decides."""

import numpy
import pytest
import torch
from label_runs import words_of

from vitspeech.decoding.unit_runs import UnitDecoder

LABELS, TIMES = ["go", "stop"], {"first_s": 0.25, "shortest_s": 0.3}


def decoder():
    return UnitDecoder(LABELS, hop_s=0.1, least_probability=0.63, **TIMES)


def logits(seed, tokens=400):
    """Runs of one to nine tokens, each token with a margin of its own over the two other classes: (T, 3)."""
    generator = numpy.random.default_rng(seed)
    best = generator.integers(0, 3, tokens).repeat(generator.integers(1, 10, tokens))[:tokens]
    return generator.uniform(0.1, 2.5, (tokens, 1)) * numpy.eye(3)[best]


def expected(rows):
    probabilities, best = torch.from_numpy(rows).softmax(-1).max(-1)
    words = words_of(best, silence=2, frame_s=0.1, probabilities=probabilities, least_probability=0.63, **TIMES)
    return [(LABELS[word.label], word.start_s, word.end_s) for word in words]


def found(units):
    return [(unit.label, pytest.approx(unit.start_s), pytest.approx(unit.end_s)) for unit in units]


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_probability_of_a_run_decides_however_it_is_cut_and_restored(seed):
    rows = logits(seed)
    long = words_of(torch.from_numpy(rows).argmax(-1), silence=2, frame_s=0.1, **TIMES)
    assert 5 < len(expected(rows)) < len(long) - 5
    whole = decoder()
    assert found([*whole.push(rows), *whole.flush()]) == expected(rows)
    cuts = numpy.random.default_rng(seed).integers(0, len(rows), 50)
    units, state = [], decoder().state()
    for part in numpy.split(rows, sorted(cuts)):
        other = decoder()
        other.restore(state)
        units += other.push(part)
        state = other.state()
    assert found([*units, *other.flush()]) == expected(rows)
    assert found([*other.push(rows), *other.flush()]) == expected(rows)  # nothing is left of the first recording


@pytest.mark.parametrize("tokens", [[3, 1], [1, 3, 0], [3.0, 1.0, 0.0]])
def test_what_is_no_state_is_refused(tokens):
    with pytest.raises((TypeError, ValueError)):
        decoder().restore({"tokens": numpy.array(tokens), "total": numpy.array(0.5)})


def test_without_a_least_probability_every_long_run_is_a_unit():
    any_run = UnitDecoder(LABELS, hop_s=0.1, **TIMES)
    rows = logits(0)
    long = words_of(torch.from_numpy(rows).argmax(-1), silence=2, frame_s=0.1, **TIMES)
    assert len([*any_run.push(rows), *any_run.flush()]) == len(long)
