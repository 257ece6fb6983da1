"""Keywords from logits: the decoder against its definition written out naively, and `select` against decoders.

Shapes: T tokens, C classes.
"""

import dataclasses
import json
import math

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitspeech.checkpoint.card import read_settings
from vitspeech.data.clips.speech_commands import SILENCE, UNKNOWN
from vitspeech.decoding.keywords import NO_WORDS, Detection, KeywordDecoder, SpottingSettings, select

LABELS = ["go", "stop", "yes", "unknown", "silence"]
HOP_S, FIRST_S, DELAY_S, CLIP = 0.04, 0.0225, 0.245, 23
EVERYTHING = {"thresholds": 0.0, "refractory_s": 0.0}


def decoder(labels=LABELS, clip=CLIP, **changes):
    chosen = SpottingSettings(**changes)
    return KeywordDecoder(labels, chosen, hop_s=HOP_S, first_s=FIRST_S, latency_s=DELAY_S, clip_tokens=clip)


def decoded(logits, sizes=(), **changes):
    """The detections of a recording whose logits arrive in pushes of some sizes, the rest at once."""
    tested, found, start = decoder(**changes), [], 0
    for size in [*sizes, len(logits)]:
        found += tested.push(logits[start : start + size])
        start += size
    return found + tested.flush()


def rows(*stretches, height=9.0):
    """Logits that prefer one label, for a number of tokens per (label, number) pair."""
    labels = [LABELS.index(label) for label, count in stretches for _ in range(count)]
    return height * numpy.eye(len(LABELS))[labels]


def stream(seed, height=7.0, tokens=None):
    """Random logits of a stream: stretches of 1 to 30 tokens that prefer one class, and noise."""
    generator = numpy.random.default_rng(seed)
    names = generator.choice(LABELS, 12)
    logits = rows(*((name, int(count)) for name, count in zip(names, generator.integers(1, 30, 12), strict=True)))
    return (logits * height / 9 + 2 * generator.standard_normal(logits.shape))[:tokens]


def softmax(row):
    return numpy.exp(row - row.max()) / numpy.exp(row - row.max()).sum()


def runs_of(logits, chosen):
    """The runs (word, tokens of the word), by their first tokens."""
    width, pause = max(round(chosen.smoothing_s / HOP_S), 1), max(round(chosen.pause_s / HOP_S), 1)
    posteriors, words = [softmax(row) for row in logits], []
    for token in range(len(logits)):
        smoothed = numpy.mean(posteriors[max(token - width + 1, 0) : token + 1], axis=0)
        belongs = smoothed.max() >= chosen.token_probability and LABELS[smoothed.argmax()] not in NO_WORDS
        words.append(smoothed.argmax() if belongs else None)
    runs = []
    for word in range(len(LABELS)):
        for token in (token for token, other in enumerate(words) if other == word):
            if not runs or runs[-1][0] != word or token - runs[-1][1][-1] > pause:
                runs.append((word, []))
            runs[-1][1].append(token)
    return sorted(runs, key=lambda run: run[1][0]), pause


def defined(logits, chosen, clip):
    """The candidates (word, first, last, probability, newest) after the definition: at each token, all runs anew."""
    runs, pause = runs_of(logits, chosen)
    found, used = {}, set()
    for now in range(len(logits) + 1):  # the last one is the end of the recording
        is_end, newest = now == len(logits), min(now, len(logits) - 1)
        so_far = [
            (number, word, [token for token in run if token <= newest]) for number, (word, run) in enumerate(runs)
        ]
        so_far = [item for item in so_far if item[2] and newest - item[2][-1] <= pause - is_end]
        for number, word, tokens in sorted(so_far, key=lambda item: item[2][-1]) if is_end else so_far:
            first, last = tokens[0], tokens[-1]
            is_due = is_end or newest - last == pause or newest - first + 1 >= clip
            if not is_due or (last + 1 - first) * HOP_S < chosen.shortest_s - 1e-6:
                continue
            if number not in found:
                size, best = min(clip, newest + 1), 0.0
                for end in range(max(last, size - 1), newest + 1):
                    free = [token for token in range(end - size + 1, end + 1) if token not in used]
                    total = sum((logits[token] for token in free), numpy.zeros(len(LABELS)))
                    best = max(best, softmax(total / max(len(free), chosen.least_fraction * clip))[word])
                found[number] = LABELS[word], first, last, best, newest
            if found[number][3] >= chosen.used_probability:
                used |= set(range(first, last + 1))
    return list(found.values())


CHOICES = {
    "smoothing_s": st.sampled_from([0.0, 0.04, 0.08, 0.12, 0.2]),
    "token_probability": st.sampled_from([0.3, 0.5, 0.7]),
    "pause_s": st.sampled_from([0.0, 0.08, 0.2]),
    "shortest_s": st.sampled_from([0.0, 0.15, 0.3]),
    "used_probability": st.sampled_from([0.0, 0.5, 0.9]),
    "least_fraction": st.sampled_from([0.1, 0.7, 1.0]),
}


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([3, 8, 23]), st.sampled_from([0, 1, 5, 400]), st.fixed_dictionaries(CHOICES)
)
def test_candidates_are_those_of_the_definition(seed, clip, tokens, changes):
    logits = stream(seed, tokens=tokens)
    chosen = SpottingSettings(**EVERYTHING, **changes)
    found = decoded(logits, clip=clip, **EVERYTHING, **changes)
    expected = defined(logits, chosen, clip)
    assert [detection.label for detection in found] == [label for label, *_ in expected]
    width = max(round(chosen.smoothing_s / HOP_S), 1)
    center = lambda token: FIRST_S + HOP_S * numpy.mean([max(token - width + 1, 0), token])  # noqa: E731
    for detection, (_, first, last, probability, newest) in zip(found, expected, strict=True):
        assert detection.start_s == pytest.approx(center(first))
        assert detection.end_s == pytest.approx(center(last) + HOP_S)
        assert detection.probability == pytest.approx(probability, abs=1e-9)
        assert detection.decided_s == pytest.approx(newest * HOP_S + DELAY_S)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 60), max_size=20))
def test_detections_do_not_depend_on_the_pushes(seed, sizes):
    logits = stream(seed)
    assert decoded(logits, sizes, **EVERYTHING) == decoded(logits, **EVERYTHING)
    assert decoded(torch.tensor(logits), sizes, thresholds=0.5) == decoded(logits, thresholds=0.5)


PROBABILITY = st.floats(0, 1)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.one_of(PROBABILITY, st.fixed_dictionaries({word: PROBABILITY for word in LABELS[:3]})),
    st.floats(0, 5),
    st.lists(st.integers(0, 60), max_size=5),
)
def test_selected_candidates_are_what_a_decoder_with_these_thresholds_detects(seed, thresholds, refractory_s, sizes):
    logits = stream(seed)
    chosen = {"thresholds": thresholds, "refractory_s": refractory_s}
    candidates = decoded(logits, **EVERYTHING)
    assert select(candidates, SpottingSettings(**chosen)) == decoded(logits, sizes, **chosen)
    assert select(candidates, SpottingSettings(**EVERYTHING)) == candidates


def test_a_word_has_the_probability_of_its_clip_and_is_detected_after_a_pause():
    tested = decoder(smoothing_s=0.0)
    assert tested.push(rows(("silence", 50), ("go", 20), ("silence", 1))) == []
    (found,) = tested.push(rows(("silence", 1)))
    # The clip of 23 tokens that ends with the word has 20 of go and 3 of silence.
    logits = numpy.array([9 * 20 / 23, 0, 0, 0, 9 * 3 / 23])
    expected = numpy.exp(logits[0]) / numpy.exp(logits).sum()
    times = {"start_s": 50 * HOP_S + FIRST_S, "end_s": 70 * HOP_S + FIRST_S, "decided_s": 71 * HOP_S + DELAY_S}
    assert dataclasses.asdict(found) == pytest.approx({"label": "go", "probability": expected} | times)


@pytest.mark.parametrize("pause", [("silence", 3), ("unknown", 3), ("silence", 8), ("stop", 10)])
def test_a_repeated_word_is_detected_twice(pause):
    logits = rows(("silence", 30), ("go", 12), pause, ("go", 12), ("silence", 30), height=12.0)
    found = decoded(logits, thresholds=0.5)
    words = [detection for detection in found if detection.label == "go"]
    assert len(words) == 2 and words[1].start_s - words[0].end_s == pytest.approx(pause[1] * HOP_S, abs=HOP_S)
    assert len(found) == 2 + (pause[0] == "stop")


def test_a_long_sound_is_detected_once_when_it_is_as_long_as_a_clip():
    tested = decoder()
    assert tested.push(rows(("silence", 30), ("go", CLIP))) == []  # smoothing delays the word's first token by one
    assert len(tested.push(rows(("go", 1)))) == 1
    assert tested.push(rows(("go", 500))) == [] and tested.flush() == []


def test_unknown_and_silence_are_no_words():
    assert set(NO_WORDS) == {UNKNOWN, SILENCE}
    assert decoded(rows(("silence", 60), ("unknown", 60), ("silence", 60)), **EVERYTHING) == []


def test_each_word_has_a_threshold_of_its_own():
    logits = rows(("silence", 30), ("go", 14), ("silence", 30), ("stop", 14), ("silence", 30))
    thresholds = {"go": 0.5, "stop": 0.999, "yes": 0.5}
    assert [found.label for found in decoded(logits, thresholds=thresholds)] == ["go"]
    assert len(decoded(logits, thresholds=0.5)) == 2


def test_the_refractory_period_counts_from_the_end_of_the_last_detection():
    candidates = [Detection("go", end - 0.3, end, 0.9, end + 0.1) for end in (1.0, 1.4, 1.6, 2.3)]
    chosen = SpottingSettings(thresholds=0.5, refractory_s=0.5)
    assert [found.end_s for found in select(candidates, chosen)] == [1.0, 1.6, 2.3]
    # Words that overlap may be decided in another order than they end.
    assert len(select([candidates[1], candidates[0]], SpottingSettings(thresholds=0.5))) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"thresholds": 2.0}, "threshold=2.0 is not within 0 .. 1"),
        ({"thresholds": {"go": "0.5"}}, "threshold of 'go'='0.5' is not within 0 .. 1"),
        ({"used_probability": math.nan}, "used_probability=nan is not within"),
        ({"least_fraction": 0}, "least_fraction=0 is not within"),
        ({"refractory_s": -1.0}, "refractory_s=-1.0 is not within"),
        ({"smoothing_s": 1e9}, "smoothing_s=1000000000.0 is not within 0 .. 60"),
        ({"shortest_s": None}, "shortest_s=None is not within"),
    ],
)
def test_numbers_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        SpottingSettings(**changes)


def test_settings_in_a_card_are_those_that_were_written():
    chosen = SpottingSettings(thresholds={"go": 0.5, "stop": 0.25}, refractory_s=0.5)
    assert read_settings(json.loads(json.dumps(dataclasses.asdict(chosen)))) == chosen
    assert read_settings({}) == SpottingSettings()
    with pytest.raises(ValueError, match="'threshold' is unknown; known: thresholds, refractory_s"):
        read_settings({"threshold": 0.5})


def test_thresholds_must_be_those_of_the_words():
    with pytest.raises(ValueError, match="none for the word 'yes'"):
        decoder(thresholds={"go": 0.5, "stop": 0.5})
    with pytest.raises(ValueError, match="the model does not have the word 'unknown'"):
        decoder(thresholds={"go": 0.5, "stop": 0.5, "yes": 0.5, "unknown": 0.5})


@pytest.mark.parametrize("seed", range(4))
def test_a_decoder_goes_on_from_a_state_that_was_saved(seed, tmp_path):
    logits = stream(seed)
    for stop in range(0, len(logits), 17):
        first, second = decoder(thresholds=0.3, refractory_s=0.5), decoder(thresholds=0.3, refractory_s=0.5)
        found = first.push(logits[:stop])
        numpy.savez(tmp_path / "state.npz", **first.state())
        second.restore(numpy.load(tmp_path / "state.npz"))
        found += [*second.push(logits[stop:]), *second.flush()]
        assert found == decoded(logits, thresholds=0.3, refractory_s=0.5)
