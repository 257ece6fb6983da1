"""Errors of words and characters compared with jiwer and torchmetrics; alignments, intervals and confusions."""

import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw
from torchmetrics.functional.text import char_error_rate, word_error_rate

from vitspeech.metrics.word_errors import (
    Alignment,
    ErrorCounts,
    align,
    alignments,
    confusions,
    count_errors,
    group_score,
    group_scores,
    score,
    total,
    worst,
)

WORDS = draw.sampled_from("go stop left up a it's".split())
REFERENCES = draw.lists(WORDS, min_size=1, max_size=9)
OUTPUTS = draw.lists(WORDS, max_size=9)
PAIRS = draw.lists(draw.tuples(REFERENCES, OUTPUTS), min_size=1, max_size=5)


def texts(pairs):
    return [[" ".join(words) for words in side] for side in zip(*pairs, strict=True)]


def kinds(counts):
    return counts.substitutions, counts.deletions, counts.insertions


@settings(deadline=None, max_examples=150)
@given(pairs=PAIRS)
def test_errors_of_words_agree_with_jiwer_and_torchmetrics(pairs):
    references, hypotheses = texts(pairs)
    expected, found = jiwer.process_words(references, hypotheses), score(references, hypotheses).words
    assert found.rate == word_error_rate(hypotheses, references).item() == pytest.approx(expected.wer, rel=1e-6)
    assert found.errors == expected.substitutions + expected.deletions + expected.insertions
    # Alignments of minimum cost may differ in their substitutions, but not in this difference.
    assert found.deletions - found.insertions == expected.deletions - expected.insertions
    assert found.length == expected.hits + expected.substitutions + expected.deletions


@settings(deadline=None, max_examples=150)
@given(pairs=PAIRS)
def test_errors_of_characters_and_their_kinds_agree_with_jiwer_and_torchmetrics(pairs):
    references, hypotheses = texts(pairs)
    expected, found = jiwer.process_characters(references, hypotheses), score(references, hypotheses).characters
    assert kinds(found) == (expected.substitutions, expected.deletions, expected.insertions)
    assert found.rate == char_error_rate(hypotheses, references).item() == pytest.approx(expected.cer, rel=1e-6)


@settings(deadline=None, max_examples=150)
@given(reference=OUTPUTS, hypothesis=OUTPUTS)
def test_an_alignment_preserves_the_order_of_both_sides(reference, hypothesis):
    alignment = align(reference, hypothesis)
    assert [word for word, _ in alignment.pairs if word is not None] == reference
    assert [word for _, word in alignment.pairs if word is not None] == hypothesis
    assert (None, None) not in alignment.pairs
    assert alignment.errors == align(hypothesis, reference).errors


def test_ties_between_alignments_are_resolved():
    # From the end: pairs before deletions before insertions, so that missing words are as early as possible.
    assert align("a b".split(), ["c"]).pairs == (("a", None), ("b", "c"))
    assert align(["c"], "a b".split()).pairs == ((None, "a"), ("c", "b"))
    assert align("a a".split(), ["a"]).pairs == (("a", None), ("a", "a"))
    # Two substitutions, or a deletion and an insertion around a correct word: both are two errors.
    assert align("a b".split(), "b a".split()).pairs == (("a", "b"), ("b", "a"))


def test_an_alignment_is_printed_word_under_word():
    pairs = (("left", "left"), ("stop", None), (None, "up"), ("go", "go"), ("on", "off"))
    assert str(Alignment(pairs)).splitlines() == [
        "REF: left stop *** go on",
        "HYP: left ***  up  go off",
        "          D    I      S",
    ]
    assert (Alignment(pairs).errors, Alignment(pairs).length) == (3, 4)
    assert str(align(["go", "on"], ["go", "on"])) == "REF: go on\nHYP: go on"
    assert str(align(["on"], [])) == "REF: on\nHYP: ***\n     D"
    assert str(align("o n", "on")).splitlines()[0] == "REF: o ␣   n"
    assert str(align([], [])) == ""


def test_long_alignments_are_wrapped_with_word_under_word():
    reference = [f"word{number}" for number in range(30)]
    hypothesis = [*reference[:3], "w", *reference[4:25], "more", *reference[26:]]
    rows = align(reference, hypothesis).rows(60)
    assert max(map(len, rows)) <= 60 and len(rows) % 3 == 0 and len(rows) > 6
    assert " ".join(row[5:] for row in rows[::3]).split() == reference
    assert " ".join(row[5:] for row in rows[1::3]).split() == hypothesis
    for true, output, marks in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert true.startswith("REF: ") and output.startswith("HYP: ")
        if "S" in marks:
            place = marks.index("S")
            assert true[place:].split()[0] != output[place:].split()[0] and true[place - 1] == " "
    assert "".join(rows[2::3]).split() == ["S", "S"] and "" in rows[2::3]


def test_shares_of_one_utterance_are_those_of_its_speakers():
    references, hypotheses = ["go on up", "stop"], ["no on up left", "stop"]
    ann, bob, eve = count_errors(references, hypotheses, [["ann", "ann", "bob"], ["eve"]])
    assert [share.speaker for share in (ann, bob, eve)] == ["ann", "bob", "eve"]
    assert [share.utterance for share in (ann, bob, eve)] == [0, 0, 1]
    assert ann.words == ErrorCounts(1, 0, 0, 2) and bob.words == ErrorCounts(0, 0, 1, 1)
    assert ann.characters == ErrorCounts(1, 0, 0, 6)  # with both spaces
    assert bob.characters == ErrorCounts(0, 0, 5, 2) and eve.characters == ErrorCounts(0, 0, 0, 4)


def test_insertions_at_the_beginning_count_at_the_first_word():
    ann, bob = count_errors(["go on"], ["oh go on"], [["ann", "bob"]])
    assert ann.words.insertions == 1 and ann.characters.insertions == 3
    assert bob.words.errors == bob.characters.errors == 0


def test_a_score_computed_by_hand():
    result = score(["go on", "stop", "left right up"], ["go off", "stop", "left up up up"])
    assert result.words == ErrorCounts(2, 0, 1, 6) and result.utterances == 3
    # The best resample is the correct utterance three times; the worst has 2 errors in 3 words.
    assert result.word_interval == pytest.approx((0, 2 / 3))


def test_errors_count_at_the_word_where_they_are_and_insertions_at_the_word_before():
    assert align("go on up".split(), "go off".split()).marks_by_word == [" ", "D", "S"]
    assert align(["go"], "no no go no".split()).marks_by_word == ["II I"]
    assert align("go on".split(), "go up up on".split()).marks_by_word == [" II", " "]


def test_the_interval_resamples_speakers_with_all_their_words():
    # Ann says three words wrong of four, in two utterances, one of them shared with Bob; Bob and Cid say theirs right.
    references, hypotheses = ["go on up", "stop left", "right down"], ["no off up", "go left", "right down"]
    speakers = [["ann", "ann", "bob"], ["ann", "ann"], ["cid", "cid"]]
    result = score(references, hypotheses, speakers)
    assert result.words.rate == pytest.approx(3 / 7)
    assert result.word_interval == (0, 0.75)  # without Ann, and only Ann; each in 1 of 27 or more resamples
    apart = score(references, hypotheses)
    assert apart.word_interval[1] == pytest.approx(2 / 3)
    # Only Ann is wrong: "go on " -> "no off " with 3 errors in 6 characters, "stop left" -> "go left" with 3 in 9.
    assert result.character_interval == (0, pytest.approx(6 / 15))


def test_the_interval_matches_the_normal_approximation_and_is_reproducible():
    # 400 utterances of one word, a tenth of them wrong: 0.1 ± 1.96 · sqrt(0.1 · 0.9 / 400) by the normal law.
    references = ["go"] * 400
    hypotheses = ["stop"] * 40 + ["go"] * 360
    result = score(references, hypotheses)
    assert result.word_interval == pytest.approx((0.0706, 0.1294), abs=0.006)
    assert score(references, hypotheses) == result


def test_one_speaker_is_resampled_by_utterances_and_one_utterance_has_no_interval():
    references, hypotheses = ["go on", "stop", "left right"], ["go off", "stop", "left up"]
    unknown = score(references, hypotheses)
    one = group_score(count_errors(references, hypotheses, [["eve"] * 2, ["eve"], ["eve"] * 2]))
    assert one == unknown
    single = group_score(count_errors(references[:1], hypotheses[:1]))
    assert single.word_interval is single.character_interval is None


def test_groups_are_sorted_and_sum_to_the_whole():
    references, hypotheses = ["go on up", "stop left", "go"], ["no off up", "go left", "go"]
    speakers = [["bob", "ann", "bob"], ["ann", "ann"], ["bob"]]
    shares = count_errors(references, hypotheses, speakers)
    groups = group_scores(shares, lambda share: share.speaker, resamples=100)
    assert list(groups) == ["ann", "bob"]
    assert [(one.utterances, one.words.length, one.words.errors) for one in groups.values()] == [(2, 3, 2), (2, 3, 1)]
    whole = group_score(shares, resamples=100)
    assert total(one.characters for one in groups.values()) == whole.characters


def test_the_worst_utterances_are_listed_with_their_names():
    references = ["go on", "stop", "left right up", "yes"]
    hypotheses = ["go off", "stop", "up right left", "no"]
    aligned = alignments(references, hypotheses)
    lines = worst(aligned, ["one", "two", "three", "four"], count=2)
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
    assert len(worst(aligned, list("abcd"))) == 12  # without the correct one
    reference = " ".join(["something"] * 40)
    lines = worst(alignments([reference], [reference.replace("something", "nothing", 1)]), ["one"])
    assert lines[0] == "one: errors 1, words 40" and max(map(len, lines)) <= 100 and len(lines) == 16


def test_confusions_are_counted_most_common_first():
    aligned = alignments(["go on", "on", "no", "on"], ["no off", "off", "go", "of"])
    assert confusions(aligned) == [("on", "off", 2), ("go", "no", 1), ("no", "go", 1), ("on", "of", 1)]
    assert confusions([]) == []


def test_transcripts_without_an_error_rate_and_speakers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="has no words"):
        score(["go", "  "], ["go", "on"])
    for speakers in (["ann"], ["ann", "bob", "cid"]):
        with pytest.raises(ValueError):
            score(["go on"], ["go"], [speakers])
