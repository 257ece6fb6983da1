"""Errors of transcripts: alignments, error rates of words and characters with their intervals, and confusions.

Words are aligned here, since published counts depend on how ties are resolved: all alignments of minimum cost have as
many errors in total, and the same difference of deletions and insertions, but not as many substitutions. Characters,
spaces included, are aligned by rapidfuzz, since utterances have hundreds of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rapidfuzz.distance import Levenshtein

from vitspeech.metrics.intervals import bootstrap_ratio_interval

RESAMPLES = 10_000
MISSING = "***"
HEADS = ("REF: ", "HYP: ", "     ")
WIDTH = 100  # columns of a listing
LETTERS = {"replace": "S", "delete": "D", "insert": "I"}  # of rapidfuzz's operations


@dataclass(frozen=True)
class ErrorCounts:
    """Errors of words, or of characters.

    Args:
        substitutions: Replaced by others.
        deletions: Of the reference, without a counterpart in the hypothesis.
        insertions: Of the hypothesis, without a counterpart in the reference.
        length: Number of words or characters of the reference.
    """

    substitutions: int
    deletions: int
    insertions: int
    length: int

    @property
    def errors(self) -> int:
        """All errors: the edit distance."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors per word or character of the reference, rounded to single precision, as torchmetrics does."""
        return (torch.tensor(self.errors).float() / torch.tensor(self.length).float()).item()


@dataclass(frozen=True)
class Alignment:
    """Reference and hypothesis, word by word, with the minimum number of errors.

    Args:
        pairs: (reference, hypothesis) in order; a deletion has `None` as its hypothesis, an insertion as its
            reference.
    """

    pairs: tuple[tuple[str | None, str | None], ...]

    @property
    def marks(self) -> str:
        """One letter per pair: S, D or I, or a space for a correct word."""
        return "".join(
            " " if true == output else "D" if output is None else "I" if true is None else "S"
            for true, output in self.pairs
        )

    @property
    def marks_by_word(self) -> list[str]:
        """The marks at each word of the reference; insertions are at the word before them, or at the first."""
        places, place = [""] * self.length, -1
        for letter in self.marks:
            place += letter != "I"
            places[max(place, 0)] += letter
        return places

    @property
    def errors(self) -> int:
        """The edit distance."""
        return len(self.pairs) - self.marks.count(" ")

    @property
    def length(self) -> int:
        """Number of reference words."""
        return sum(reference is not None for reference, _ in self.pairs)

    def __str__(self) -> str:
        """Reference and hypothesis on two lines, word under word, and a third line that marks the errors, if any."""
        return "\n".join(row for row in self.rows() if row)

    def rows(self, width: int | None = None) -> list[str]:
        """The lines of an alignment: reference, hypothesis and marks, as often as needed for the width.

        Args:
            width: Longest line; only a longer single word exceeds it. `None` does not wrap.
        """
        cells = [[MISSING if word is None else word.replace(" ", "␣") for word in pair] for pair in self.pairs]
        blocks, used = [[]], 0
        for column in ((*words, letter) for words, letter in zip(cells, self.marks, strict=True)):
            columns = max(map(len, column)) + 1
            if width is not None and blocks[-1] and len(HEADS[0]) + used + columns - 1 > width:
                blocks.append([])
                used = 0
            blocks[-1].append(column)
            used += columns
        rows = []
        for block in blocks:
            widths = [max(map(len, column)) for column in block]
            for head, row in zip(HEADS, zip(*block, strict=True), strict=False):
                line = head + " ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True))
                rows.append(line.rstrip())
        return rows


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """Align two lists of words (or characters) with the minimum number of errors (Levenshtein 1966).

    Ties are resolved from the end backwards: correct words and substitutions before deletions before insertions.
    """
    costs = [list(range(len(hypothesis) + 1))]  # costs[i][j]: edit distance of i reference words to j hypothesis words
    for row, true in enumerate(reference, 1):
        above, current = costs[-1], [row]
        for column, output in enumerate(hypothesis):
            diagonal = above[column] + (true != output)
            current.append(min(diagonal, above[column + 1] + 1, current[column] + 1))
        costs.append(current)

    pairs, row, column = [], len(reference), len(hypothesis)
    while row or column:
        cost = costs[row][column]
        wrong = not (row and column) or reference[row - 1] != hypothesis[column - 1]
        if row and column and cost == costs[row - 1][column - 1] + wrong:
            row, column = row - 1, column - 1
            pairs.append((reference[row], hypothesis[column]))
        elif row and cost == costs[row - 1][column] + 1:
            row -= 1
            pairs.append((reference[row], None))
        else:
            column -= 1
            pairs.append((None, hypothesis[column]))
    return Alignment(tuple(reversed(pairs)))


def alignments(references: Sequence[str], hypotheses: Sequence[str]) -> list[Alignment]:
    """Align the words of each utterance. Words are separated by spaces; case and punctuation matter.

    Raises:
        ValueError: If a reference has no words, so that its error rate is undefined.
    """
    if empty := [index for index, reference in enumerate(references) if not reference.split()]:
        raise ValueError(f"references[{empty[0]}]={references[empty[0]]!r} has no words")
    return [align(true.split(), output.split()) for true, output in zip(references, hypotheses, strict=True)]


@dataclass(frozen=True)
class SpeakerErrors:
    """The errors in what one speaker says in one utterance.

    Args:
        utterance: Index of the utterance.
        speaker: `None` if unknown.
        words: Errors of the words; an insertion counts at the word before it, or at the first.
        characters: Errors of the characters; a space counts for the word before it.
    """

    utterance: int
    speaker: Hashable | None
    words: ErrorCounts
    characters: ErrorCounts


@dataclass(frozen=True)
class GroupScore:
    """Error rates of a group of utterances, or of what some speakers say in them.

    Args:
        utterances: Number of utterances.
        words: Errors of the words.
        characters: Errors of the characters.
        word_interval: The 95 % interval of the word error rate, by bootstrap over speakers if the group has several,
            else over utterances; `None` if there is only one utterance.
        character_interval: That of the character error rate.
    """

    utterances: int
    words: ErrorCounts
    characters: ErrorCounts
    word_interval: tuple[float, float] | None
    character_interval: tuple[float, float] | None


def count_errors(
    references: Sequence[str],
    hypotheses: Sequence[str],
    speakers: Sequence[Sequence[str]] | None = None,
    aligned: Sequence[Alignment] | None = None,
) -> list[SpeakerErrors]:
    """Count the errors of each speaker of each utterance. Case, punctuation and the number of spaces matter.

    Args:
        references: True transcripts.
        hypotheses: Recognized transcripts.
        speakers: For each utterance the speaker of each reference word; `None` if unknown.
        aligned: Their `alignments`; `None` aligns them.

    Raises:
        ValueError: If a reference is empty, or there is not one speaker per reference word.
    """
    aligned = alignments(references, hypotheses) if aligned is None else aligned
    found = []
    for utterance, (reference, hypothesis, alignment) in enumerate(zip(references, hypotheses, aligned, strict=True)):
        names = [None] * alignment.length if speakers is None else speakers[utterance]
        words, characters = defaultdict(list), defaultdict(list)
        for name, marks in zip(names, alignment.marks_by_word, strict=True):
            words[name].append(marks)
        places = zip(word_of_each_character(reference), character_marks(reference, hypothesis), strict=True)
        for word, marks in places:
            characters[names[word]].append(marks)
        found += [SpeakerErrors(utterance, name, count(words[name]), count(characters[name])) for name in words]
    return found


def character_marks(reference: str, hypothesis: str) -> list[str]:
    """The marks (S, D and I) at each character of the reference, as in `marks_by_word`; correct ones have none."""
    places = [""] * len(reference)
    for operation in Levenshtein.editops(reference, hypothesis):
        place = operation.src_pos - (operation.tag == "insert")
        places[max(place, 0)] += LETTERS[operation.tag]
    return places


def word_of_each_character(text: str) -> list[int]:
    """For each character the index of its word; a space belongs to the word before it, or to the first."""
    words, word, before = [], -1, " "
    for character in text:
        word += before.isspace() and not character.isspace()
        words.append(max(word, 0))
        before = character
    return words


def count(marks: Sequence[str]) -> ErrorCounts:
    """Count the marks at some places of a reference."""
    letters = "".join(marks)
    return ErrorCounts(letters.count("S"), letters.count("D"), letters.count("I"), len(marks))


def total(counts: Iterable[ErrorCounts]) -> ErrorCounts:
    """The sum of some counts."""
    rows = [(one.substitutions, one.deletions, one.insertions, one.length) for one in counts]
    return ErrorCounts(*map(sum, zip(*rows, strict=True)))


def score(
    references: Sequence[str], hypotheses: Sequence[str], speakers: Sequence[Sequence[str]] | None = None
) -> GroupScore:
    """The error rates of transcripts, not means over utterances; arguments and errors as those of `count_errors`."""
    return group_score(count_errors(references, hypotheses, speakers))


def group_score(group: Sequence[SpeakerErrors], resamples: int = RESAMPLES) -> GroupScore:
    """The error rates of a group, with intervals.

    Errors of one speaker are not independent, so the interval resamples speakers with all that they say, also where an
    utterance has several speakers. It resamples utterances if the speakers are unknown or there is only one.

    Args:
        group: At least one of the results of `count_errors`.
        resamples: Number of resamples of the bootstrap.
    """
    units = [one.speaker for one in group]
    if len(set(units)) == 1:
        units = [one.utterance for one in group]

    def interval(counts: Sequence[ErrorCounts]) -> tuple[float, float] | None:
        if len(set(units)) == 1:
            return None
        errors = torch.tensor([one.errors for one in counts], dtype=torch.float64)
        lengths = torch.tensor([one.length for one in counts], dtype=torch.float64)
        return bootstrap_ratio_interval(errors, lengths, resamples=resamples, groups=units)

    words, characters = [one.words for one in group], [one.characters for one in group]
    utterances = len({one.utterance for one in group})
    return GroupScore(utterances, total(words), total(characters), interval(words), interval(characters))


def group_scores(
    errors: Iterable[SpeakerErrors], key: Callable[[SpeakerErrors], Any], resamples: int = RESAMPLES
) -> dict[Any, GroupScore]:
    """`group_score` of each group: those with the same key, such as the speaker, sorted by it."""
    groups = defaultdict(list)
    for one in errors:
        groups[key(one)].append(one)
    return {name: group_score(groups[name], resamples) for name in sorted(groups)}


def worst(aligned: Sequence[Alignment], names: Sequence[str], *, count: int = 10) -> list[str]:
    """Report the `count` utterances with the most errors: lines with each one's name and alignment.

    Alignments are wrapped at 100 columns; an empty line stands for the marks of a part without errors.
    """
    wrong = [pair for pair in zip(names, aligned, strict=True) if pair[1].errors]
    lines = []
    for name, alignment in sorted(wrong, key=lambda pair: -pair[1].errors)[:count]:
        lines.append(f"{name}: errors {alignment.errors}, words {alignment.length}")
        lines += alignment.rows(WIDTH)
    return lines


def confusions(aligned: Iterable[Alignment]) -> list[tuple[str, str, int]]:
    """Count the substitutions of words: (reference, hypothesis, count), sorted by count, then alphabetically."""
    return sorted_counts(
        pair for one in aligned for pair, mark in zip(one.pairs, one.marks, strict=True) if mark == "S"
    )


def confused_characters(references: Sequence[str], hypotheses: Sequence[str]) -> list[tuple[str, str, int]]:
    """`confusions` of characters."""
    return sorted_counts(
        (true[operation.src_pos], output[operation.dest_pos])
        for true, output in zip(references, hypotheses, strict=True)
        for operation in Levenshtein.editops(true, output)
        if operation.tag == "replace"
    )


def sorted_counts(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str, int]]:
    """Each pair with how often it is there, sorted by count, then alphabetically."""
    return sorted(((*pair, number) for pair, number in Counter(pairs).items()), key=lambda row: (-row[2], row))
