"""Word error rates compared with torchmetrics, alignments, intervals and confusions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw
from torchmetrics.functional.text import char_error_rate, word_error_rate

from vitspeech.metrics.word_errors import (
    Alignment,
    align,
    alignments,
    character_error_rate,
    confusions,
    errors_by_word,
    score,
    worst,
)

WORDS = draw.sampled_from("go stop left up".split())
REFERENCES = draw.lists(WORDS, min_size=1, max_size=7)
OUTPUTS = draw.lists(WORDS, max_size=7)


def counts(alignment):
    return alignment.substitutions, alignment.deletions, alignment.insertions, alignment.length


@settings(deadline=None, max_examples=150)
@given(pairs=draw.lists(draw.tuples(REFERENCES, OUTPUTS), min_size=1, max_size=5))
def test_errors_of_all_kinds_sum_to_the_word_error_rate_of_torchmetrics(pairs):
    references, hypotheses = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    result = score(references, hypotheses)
    expected = word_error_rate(hypotheses, references).item()
    assert result.wer == expected
    assert (result.substitutions + result.deletions + result.insertions) / result.words == pytest.approx(expected)
    assert result.words == sum(len(words) for words, _ in pairs)
    assert result.utterances == len(pairs)
    assert result.utterance_accuracy == pytest.approx(sum(one == other for one, other in pairs) / len(pairs))


@settings(deadline=None, max_examples=150)
@given(reference=OUTPUTS, hypothesis=OUTPUTS)
def test_an_alignment_preserves_the_order_of_both_sides(reference, hypothesis):
    alignment = align(reference, hypothesis)
    assert [word for word, _ in alignment.pairs if word is not None] == reference
    assert [word for _, word in alignment.pairs if word is not None] == hypothesis
    assert (None, None) not in alignment.pairs
    assert alignment.errors == sum(counts(alignment)[:3])
    mirrored = align(hypothesis, reference)
    assert mirrored.errors == alignment.errors


@settings(deadline=None, max_examples=80)
@given(reference=draw.text("abc ", min_size=1, max_size=9), hypothesis=draw.text("abc ", max_size=9))
def test_characters_can_be_aligned(reference, hypothesis):
    alignment = align(reference, hypothesis)
    expected = char_error_rate([hypothesis], [reference]).item()
    assert alignment.errors / alignment.length == pytest.approx(expected)
    if reference.split():
        assert character_error_rate([reference], [hypothesis]) == expected


def test_ties_between_alignments_are_resolved():
    # From the end: pairs before deletions before insertions, so that missing words are as early as possible.
    assert align("a b".split(), ["c"]).pairs == (("a", None), ("b", "c"))
    assert align(["c"], "a b".split()).pairs == ((None, "a"), ("c", "b"))
    assert align("a a".split(), ["a"]).pairs == (("a", None), ("a", "a"))
    # Two substitutions, or a deletion and an insertion around a correct word: both are two errors.
    assert align("a b".split(), "b a".split()).pairs == (("a", "b"), ("b", "a"))
    assert counts(align("a b".split(), "b a".split())) == (2, 0, 0, 2)


def test_an_alignment_is_printed_word_under_word():
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


def test_a_score_computed_by_hand():
    result = score(["go on", "stop", "left right up"], ["go off", "stop", "left up up up"])
    assert (result.substitutions, result.deletions, result.insertions) == (2, 0, 1)
    assert result.wer == pytest.approx(3 / 6)
    assert result.utterance_accuracy == pytest.approx(1 / 3)
    assert (result.words, result.utterances) == (6, 3)
    # The best resample is the correct utterance three times; the worst has 2 errors in 3 words.
    assert (result.wer_low, result.wer_high) == pytest.approx((0, 2 / 3))


def test_errors_count_at_the_word_where_they_are_and_insertions_at_the_word_before():
    assert errors_by_word(align("go on up".split(), "go off".split())) == [0, 1, 1]
    assert errors_by_word(align(["go"], "no no go no".split())) == [3]
    assert errors_by_word(align("go on".split(), "go up up on".split())) == [2, 0]


def test_the_interval_resamples_speakers_with_all_their_words():
    # Ann says three words wrong of four, in two utterances, one of them shared with Bob; Bob and Cid say theirs right.
    references, hypotheses = ["go on up", "stop left", "right down"], ["no off up", "go left", "right down"]
    speakers = [["ann", "ann", "bob"], ["ann", "ann"], ["cid", "cid"]]
    result = score(references, hypotheses, speakers)
    assert (result.wer, result.speakers) == (pytest.approx(3 / 7), 3)
    assert (result.wer_low, result.wer_high) == (
        0,
        0.75,
    )  # without Ann, and only Ann; each in 1 of 27 or more resamples
    apart = score(references, hypotheses)
    assert apart.speakers is None and apart.wer_high == pytest.approx(2 / 3)


def test_one_speaker_alone_gives_the_interval_over_utterances():
    references, hypotheses = ["go on", "stop", "left right"], ["go off", "stop", "left up"]
    result, unknown = score(references, hypotheses, [["eve"] * 2, ["eve"], ["eve"] * 2]), score(references, hypotheses)
    assert (result.wer_low, result.wer_high) == (unknown.wer_low, unknown.wer_high)
    assert (result.speakers, unknown.speakers) == (1, None)


def test_each_word_needs_its_speaker():
    with pytest.raises(ValueError, match="speakers must have one entry per word of each reference"):
        score(["go on", "stop"], ["go on", "stop"], [["ann"], ["bob", "bob"]])
    with pytest.raises(ValueError, match="speakers must have one entry per word of each reference"):
        score(["go on"], ["go"], [["ann"]])  # also of one speaker


def test_the_interval_matches_the_normal_approximation_and_is_reproducible():
    # 400 utterances of one word, a tenth of them wrong: 0.1 ± 1.96 · sqrt(0.1 · 0.9 / 400) by the normal law.
    references = ["go"] * 400
    hypotheses = ["stop"] * 40 + ["go"] * 360
    result = score(references, hypotheses)
    assert (result.wer_low, result.wer_high) == pytest.approx((0.0706, 0.1294), abs=0.006)
    assert score(references, hypotheses) == result
    assert score(["go"], ["stop"]).wer_low == 1 == score(["go"], ["stop"]).wer_high


def test_empty_hypotheses_are_deletions_and_insertions_can_exceed_one():
    assert (score(["go on"], [""]).wer, score(["go on"], [""]).deletions) == (1, 2)
    assert (score(["go"], ["a b c"]).wer, score(["go"], ["a b c"]).insertions) == (3, 2)


def test_the_worst_utterances_are_listed_with_their_names():
    references = ["go on", "stop", "left right up", "yes"]
    hypotheses = ["go off", "stop", "up right left", "no"]
    lines = worst(references, hypotheses, ["one", "two", "three", "four"], count=2)
    assert lines == [
        "three: errors 2, words 3",
        "REF: left right up",
        "HYP: up   right left",
        "     S          S",
        "one: errors 1, words 2",
        "REF: go on",
        "HYP: go off",
        "        S",
    ]
    assert len(worst(references, hypotheses, list("abcd"))) == 12  # without the correct one
    assert worst(["go"], ["go"], ["one"]) == []


def test_confusions_are_counted_most_common_first():
    aligned = alignments(["go on", "on", "no", "on"], ["no off", "off", "go", "of"])
    assert confusions(aligned) == [("on", "off", 2), ("go", "no", 1), ("no", "go", 1), ("on", "of", 1)]
    assert confusions([]) == []


@pytest.mark.parametrize("rate", [score, character_error_rate, alignments])
@pytest.mark.parametrize(
    "references, hypotheses, message",
    [
        (["go", "on"], ["go"], "1 hypotheses for 2 references"),
        (["go", "  "], ["go", "on"], r"references\[1\]='  ' has no words"),
        ([], [], "no utterances"),
        ("go", "no", "must be lists with one transcript per utterance"),
    ],
)
def test_transcripts_without_an_error_rate_are_refused(rate, references, hypotheses, message):
    with pytest.raises(ValueError, match=message):
        rate(references, hypotheses)


def test_a_wrong_number_of_names_is_refused():
    with pytest.raises(ValueError, match="1 names for 2 references"):
        worst(["go", "on"], ["go", "on"], ["one"])
