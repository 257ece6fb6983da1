"""Errors of words and characters compared with jiwer, by speaker and by group, with their intervals."""

import time

import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as draw

from vitspeech.metrics.word_errors import (
    Alignment,
    ErrorCounts,
    align,
    character_error_rate,
    count_errors,
    group_score,
    group_scores,
    score,
    total,
    word_of_each_character,
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
def test_errors_of_words_agree_with_jiwer(pairs):
    references, hypotheses = texts(pairs)
    expected = jiwer.process_words(references, hypotheses)
    found = total(share.words for share in count_errors(references, hypotheses))
    assert found.rate == pytest.approx(expected.wer, rel=1e-6)
    assert found.errors == expected.substitutions + expected.deletions + expected.insertions
    # Alignments of minimum cost may differ in their substitutions, but not in this difference.
    assert found.deletions - found.insertions == expected.deletions - expected.insertions
    assert found.length == expected.hits + expected.substitutions + expected.deletions


@settings(deadline=None, max_examples=150)
@given(pairs=PAIRS)
def test_errors_of_characters_and_their_kinds_agree_with_jiwer(pairs):
    references, hypotheses = texts(pairs)
    expected = jiwer.process_characters(references, hypotheses)
    found = total(share.characters for share in count_errors(references, hypotheses))
    assert kinds(found) == (expected.substitutions, expected.deletions, expected.insertions)
    assert found.rate == pytest.approx(expected.cer, rel=1e-6)
    assert found.rate == character_error_rate(references, hypotheses)


@settings(deadline=None, max_examples=50)
@given(pairs=PAIRS)
def test_words_are_counted_as_in_the_score(pairs):
    references, hypotheses = texts(pairs)
    expected = score(references, hypotheses)
    found = group_score(count_errors(references, hypotheses), resamples=10)
    assert kinds(found.words) == (expected.substitutions, expected.deletions, expected.insertions)
    assert (found.words.rate, found.words.length, found.utterances) == (expected.wer, expected.words, len(pairs))


def test_shares_of_one_utterance_are_those_of_its_speakers():
    references, hypotheses = ["go on up", "stop"], ["no on up left", "stop"]
    ann, bob, eve = count_errors(references, hypotheses, [["ann", "ann", "bob"], ["eve"]])
    assert [share.speaker for share in (ann, bob, eve)] == ["ann", "bob", "eve"]
    assert [share.utterance for share in (ann, bob, eve)] == [0, 0, 1]
    assert ann.words == ErrorCounts(1, 0, 0, 2) and bob.words == ErrorCounts(0, 0, 1, 1)
    assert ann.characters == ErrorCounts(1, 0, 0, 6)  # with both spaces
    assert bob.characters == ErrorCounts(0, 0, 5, 2) and eve.characters == ErrorCounts(0, 0, 0, 4)


def test_a_space_belongs_to_the_word_before():
    assert word_of_each_character("go  on") == [0, 0, 0, 0, 1, 1]
    assert word_of_each_character(" a b ") == [0, 0, 0, 1, 1]


def test_insertions_at_the_beginning_count_at_the_first_word():
    ann, bob = count_errors(["go on"], ["oh go on"], [["ann", "bob"]])
    assert ann.words.insertions == 1 and ann.characters.insertions == 3
    assert bob.words.errors == bob.characters.errors == 0


def test_an_empty_hypothesis_misses_everything():
    (share,) = count_errors(["go on"], [""])
    assert share.words == ErrorCounts(0, 2, 0, 2) and share.characters == ErrorCounts(0, 5, 0, 5)


def test_intervals_resample_speakers_as_the_score_does():
    references, hypotheses = ["go on up", "stop left", "right down"], ["no off up", "go left", "right down"]
    speakers = [["ann", "ann", "bob"], ["ann", "ann"], ["cid", "cid"]]
    shares, expected = count_errors(references, hypotheses, speakers), score(references, hypotheses, speakers)
    found = group_score(shares)
    assert found.word_interval == (expected.wer_low, expected.wer_high) == (0, 0.75)
    # Only Ann is wrong: "go on " -> "no off " with 3 errors in 6 characters, "stop left" -> "go left" with 3 in 9.
    assert found.character_interval == (0, pytest.approx(6 / 15))


def test_one_speaker_is_resampled_by_utterances_and_one_utterance_has_no_interval():
    references, hypotheses = ["go on", "stop", "left right"], ["go off", "stop", "left up"]
    unknown, expected = group_score(count_errors(references, hypotheses)), score(references, hypotheses)
    one = group_score(count_errors(references, hypotheses, [["eve"] * 2, ["eve"], ["eve"] * 2]))
    assert one == unknown and one.word_interval == (expected.wer_low, expected.wer_high)
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


def test_hundreds_of_characters_are_aligned_at_once():
    reference = "the quick brown fox jumps over the lazy dog and runs away " * 7
    hypothesis = reference.replace("quick", "quik").replace("dog", "dock")
    start = time.process_time()
    shares = count_errors([reference.strip()] * 50, [hypothesis.strip()] * 50)
    assert time.process_time() - start < 5  # in Python it takes longer
    assert total(share.characters for share in shares).errors == 50 * 7 * 3


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


def test_a_word_longer_than_a_line_stands_alone():
    rows = Alignment((("a", "a"), ("b" * 30, "b"), ("c", "c"))).rows(20)
    assert rows == ["REF: a", "HYP: a", "", "REF: " + "b" * 30, "HYP: b", "     S", "REF: c", "HYP: c", ""]


def test_the_listing_of_the_worst_is_wrapped():
    reference = " ".join(["something"] * 40)
    lines = worst([reference], [reference.replace("something", "nothing", 1)], ["one"])
    assert lines[0] == "one: errors 1, words 40" and max(map(len, lines)) <= 100 and len(lines) == 16
