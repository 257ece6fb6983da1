"""Pieces of words: learned from transcripts, applied, and what they refuse."""

import pickle

import pytest

from vitspeech.data.utterances.subwords import WORD_START, Subwords
from vitspeech.decoding.vocabulary import to_text
from vitspeech.errors import InputError

LINES = ["low lower lowest", "new newer newest", "wide wider widest"] * 3
COUNT = 22


def test_pieces_spell_the_words_and_mark_where_they_begin():
    pieces = Subwords.learn(LINES, COUNT)
    assert len(pieces.labels) == len(set(pieces.labels)) == COUNT
    for line in (*LINES, "slow dirt", ""):
        names = [pieces.labels[unit] for unit in pieces.encode(line.split())]
        assert to_text(names, pieces.labels) == line
    frequent = [pieces.labels[unit] for unit in pieces.encode(["lowest"])]
    assert frequent[0].startswith(WORD_START) and len(frequent) < len("lowest")


def test_the_same_pieces_come_from_the_same_transcripts_in_any_order():
    one, other = Subwords.learn(LINES, COUNT), Subwords.learn(LINES[::-1], COUNT)
    assert (one.labels, one.merges) == (other.labels, other.merges)


def test_labels_and_merges_are_all_that_is_needed():
    pieces = Subwords.learn(LINES, COUNT)
    rebuilt = Subwords(pieces.labels, pieces.merges)
    copied = pickle.loads(pickle.dumps(pieces))  # for worker processes
    for words in (["lower", "newest"], ["slow"] * 2):
        assert pieces.encode(words) == rebuilt.encode(words) == copied.encode(words)


def test_more_pieces_than_there_can_be_are_refused():
    with pytest.raises(InputError, match=r"vocab_size=500: .* pieces can be learned"):
        Subwords.learn(LINES, 500)


def test_merges_of_other_pieces_are_refused():
    with pytest.raises(InputError, match="merges of the pieces do not fit"):
        Subwords(["a", "b"], ["a c"])
