"""From units to text: words, characters, or pieces of words.

Units are words if none of the labels is a space or begins with `WORD_START`. Characters have a space among their
labels, which separates words. Pieces (byte-pair units) begin with `WORD_START` where a word begins, as in SentencePiece
(Kudo and Richardson 2018, arXiv:1808.06226).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from vitspeech.decoding.unit_runs import Segment
from vitspeech.errors import InputError

WORD_START = "▁"  # U+2581, as in SentencePiece
PIECES = "pieces"


def vocabulary_kind(labels: Sequence[str]) -> Literal["words", "characters", "pieces"]:
    """What the labels of a model are."""
    if " " in labels:
        return "characters"
    return "pieces" if any(label.startswith(WORD_START) for label in labels) else "words"


def check_vocabulary(vocabulary: Sequence[str], units: str) -> None:
    """Check that transcripts can be written with a vocabulary."""
    for unit, count in Counter(vocabulary).items():
        is_word, is_character = unit.split() == [unit], len(unit) == 1 and (unit == " " or not unit.isspace())
        if count > 1 or (units == "words" and not is_word) or (units == "characters" and not is_character):
            raise InputError(f"vocabulary: {unit!r} is there twice, or is not one of the {units}")
    if not vocabulary or (units == "characters" and " " not in vocabulary):
        raise InputError("vocabulary: is empty, or ' ' is missing, which separates words")


def to_text(names: Sequence[str], labels: Sequence[str]) -> str:
    """The text of units with these names, in order, for a model with these labels."""
    return " ".join("".join(names[begin:end]).strip(WORD_START) for begin, end in word_ranges(names, labels))


def word_ranges(names: Sequence[str], labels: Sequence[str]) -> list[tuple[int, int]]:
    """For each word its first unit and the one after its last; spaces belong to none."""
    kind, ranges, begin = vocabulary_kind(labels), [], 0
    if kind == "words":
        return [(place, place + 1) for place in range(len(names))]
    for place, name in enumerate(names):
        if kind == "characters" and name == " ":
            ranges.append((begin, place))
            begin = place + 1
        elif kind == "pieces" and name.startswith(WORD_START):
            ranges.append((begin, place))
            begin = place
    ranges.append((begin, len(names)))
    return [(first, end) for first, end in ranges if "".join(names[first:end]).strip(WORD_START)]


def to_words(units: Sequence[Segment], labels: Sequence[str]) -> tuple[Segment, ...]:
    """Join units to words, from the start of the first one to the end of the last."""
    names = [unit.label for unit in units]
    return tuple(
        Segment("".join(names[begin:end]).strip(WORD_START), units[begin].start_s, units[end - 1].end_s)
        for begin, end in word_ranges(names, labels)
    )
