"""Word errors: torchmetrics' number, split by kind, shown word under word."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw
from torchmetrics.functional.text import char_error_rate, word_error_rate

from vitspeech.metrics.word_errors import Alignment, align, alignments, character_error_rate, confusions, score, worst

WORDS = draw.sampled_from("go stop left up".split())
SPOKEN = draw.lists(WORDS, min_size=1, max_size=7)
UNDERSTOOD = draw.lists(WORDS, max_size=7)


def counts(alignment):
    return alignment.substitutions, alignment.deletions, alignment.insertions, alignment.length


@settings(deadline=None, max_examples=150)
@given(pairs=draw.lists(draw.tuples(SPOKEN, UNDERSTOOD), min_size=1, max_size=5))
def test_the_kinds_of_errors_add_up_to_torchmetrics_word_error_rate(pairs):
    references, hypotheses = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    got = score(references, hypotheses)
    expected = word_error_rate(hypotheses, references).item()
    assert got.wer == expected
    assert (got.substitutions + got.deletions + got.insertions) / got.words == pytest.approx(expected)
    assert got.words == sum(len(words) for words, _ in pairs)
    assert got.utterances == len(pairs)
    assert got.utterance_accuracy == pytest.approx(sum(one == other for one, other in pairs) / len(pairs))


@settings(deadline=None, max_examples=150)
@given(reference=UNDERSTOOD, hypothesis=UNDERSTOOD)
def test_an_alignment_keeps_both_sides_in_their_order(reference, hypothesis):
    alignment = align(reference, hypothesis)
    assert [word for word, _ in alignment.pairs if word is not None] == reference
    assert [word for _, word in alignment.pairs if word is not None] == hypothesis
    assert (None, None) not in alignment.pairs
    assert alignment.errors == sum(counts(alignment)[:3])
    mirrored = align(hypothesis, reference)
    assert mirrored.errors == alignment.errors


@settings(deadline=None, max_examples=80)
@given(reference=draw.text("abc ", min_size=1, max_size=9), hypothesis=draw.text("abc ", max_size=9))
def test_characters_align_too(reference, hypothesis):
    alignment = align(reference, hypothesis)
    expected = char_error_rate([hypothesis], [reference]).item()
    assert alignment.errors / alignment.length == pytest.approx(expected)
    if reference.split():
        assert character_error_rate([reference], [hypothesis]) == expected


def test_of_alignments_alike_one_is_chosen():
    # A pair before a deletion before an insertion, from the end: what is missing lies as early as can be.
    assert align("a b".split(), ["c"]).pairs == (("a", None), ("b", "c"))
    assert align(["c"], "a b".split()).pairs == ((None, "a"), ("c", "b"))
    assert align("a a".split(), ["a"]).pairs == (("a", None), ("a", "a"))
    # Two substitutions, or a deletion and an insertion around what is alike: both are two errors.
    assert align("a b".split(), "b a".split()).pairs == (("a", "b"), ("b", "a"))
    assert counts(align("a b".split(), "b a".split())) == (2, 0, 0, 2)


def test_an_alignment_is_shown_word_under_word():
    pairs = (("left", "left"), ("stop", None), (None, "up"), ("go", "go"), ("on", "off"))
    assert str(Alignment(pairs)).splitlines() == [
        "REF: left stop *** go on",
        "HYP: left ***  up  go off",
        "          D    I      S",
    ]
    assert counts(Alignment(pairs)) == (1, 1, 1, 4)
    assert str(align(["go", "on"], ["go", "on"])) == "REF: go on\nHYP: go on"
    assert str(align(["on"], [])) == "REF: on\nHYP: ***\n     D"
    assert str(align("o n", "on")).splitlines()[0] == "REF: o ␣   n"
    assert str(align([], [])) == ""


def test_a_score_worked_by_hand():
    got = score(["go on", "stop", "left right up"], ["go off", "stop", "left up up up"])
    assert (got.substitutions, got.deletions, got.insertions) == (2, 0, 1)
    assert got.wer == pytest.approx(3 / 6)
    assert got.utterance_accuracy == pytest.approx(1 / 3)
    assert (got.words, got.utterances) == (6, 3)
    # The best draw is the one right utterance three times, the worst the worst: 2 errors in 3 words.
    assert (got.wer_low, got.wer_high) == pytest.approx((0, 2 / 3))


def test_the_interval_is_that_of_the_error_rate_and_the_same_every_time():
    # 400 utterances of one word, a tenth of them wrong: 0.1 ± 1.96 · sqrt(0.1 · 0.9 / 400), by the normal law.
    references = ["go"] * 400
    hypotheses = ["stop"] * 40 + ["go"] * 360
    got = score(references, hypotheses)
    assert (got.wer_low, got.wer_high) == pytest.approx((0.0706, 0.1294), abs=0.006)
    assert score(references, hypotheses) == got
    assert score(["go"], ["stop"]).wer_low == 1 == score(["go"], ["stop"]).wer_high


def test_nothing_understood_is_all_deleted_and_nonsense_goes_above_one():
    assert (score(["go on"], [""]).wer, score(["go on"], [""]).deletions) == (1, 2)
    assert (score(["go"], ["a b c"]).wer, score(["go"], ["a b c"]).insertions) == (3, 2)


def test_the_worst_utterances_come_with_their_names():
    references = ["go on", "stop", "left right up", "yes"]
    hypotheses = ["go off", "stop", "up right left", "no"]
    lines = worst(references, hypotheses, ["one", "two", "three", "four"], count=2)
    assert lines == [
        "three: 2 wrong, 3 said",
        "REF: left right up",
        "HYP: up   right left",
        "     S          S",
        "one: 1 wrong, 2 said",
        "REF: go on",
        "HYP: go off",
        "        S",
    ]
    assert len(worst(references, hypotheses, list("abcd"))) == 12  # not the one that is right
    assert worst(["go"], ["go"], ["one"]) == []


def test_confusions_are_counted_most_common_first():
    found = alignments(["go on", "on", "no", "on"], ["no off", "off", "go", "of"])
    assert confusions(found) == [("on", "off", 2), ("go", "no", 1), ("no", "go", 1), ("on", "of", 1)]
    assert confusions([]) == []


@pytest.mark.parametrize("rate", [score, character_error_rate, alignments])
@pytest.mark.parametrize(
    "references, hypotheses, message",
    [
        (["go", "on"], ["go"], "1 hypotheses for 2 references"),
        (["go", "  "], ["go", "on"], r"references\[1\] is empty: '  '"),
        ([], [], "no utterances"),
        ("go", "no", "one string for all utterances"),
    ],
)
def test_what_has_no_error_rate_is_refused(rate, references, hypotheses, message):
    with pytest.raises(ValueError, match=message):
        rate(references, hypotheses)


def test_every_utterance_has_a_name():
    with pytest.raises(ValueError, match="1 names for 2 references"):
        worst(["go", "on"], ["go", "on"], ["one"])
