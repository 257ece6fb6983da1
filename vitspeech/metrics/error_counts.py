"""Errors of words and characters, counted for each speaker of each utterance, and their rates over any group of them.

The errors of words are those of `vitspeech.metrics.word_errors.align`. Characters, spaces included, are aligned by
rapidfuzz, since utterances have hundreds of them. All alignments of minimum cost have as many errors in total, and the
same difference of deletions and insertions; how many are substitutions depends on how ties are resolved.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rapidfuzz.distance import Levenshtein

from vitspeech.metrics.intervals import bootstrap_ratio_interval
from vitspeech.metrics.word_errors import RESAMPLES, alignments, check_speakers, mark

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
        """All errors."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Errors per word or character of the reference, rounded to single precision, as torchmetrics does."""
        return (torch.tensor(self.errors).float() / torch.tensor(self.length).float()).item()


@dataclass(frozen=True)
class Share:
    """What one speaker says in one utterance.

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
    """Error rates of a group of shares.

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
    references: Sequence[str], hypotheses: Sequence[str], speakers: Sequence[Sequence[str]] | None = None
) -> list[Share]:
    """Count the errors of each speaker of each utterance. Case, punctuation and the number of spaces matter.

    Args:
        references: True transcripts.
        hypotheses: Recognized transcripts.
        speakers: For each utterance the speaker of each reference word; `None` if unknown.

    Raises:
        ValueError: If there are no utterances, the numbers of references and hypotheses differ, a reference is empty,
            or there is not one speaker per reference word.
    """
    aligned = alignments(references, hypotheses)
    if speakers is not None:
        check_speakers(aligned, speakers)
    shares = []
    for utterance, (reference, hypothesis, alignment) in enumerate(zip(references, hypotheses, aligned, strict=True)):
        names = [None] * alignment.length if speakers is None else speakers[utterance]
        word_marks = marks_by_place((mark(*pair) for pair in alignment.pairs), alignment.length)
        character_marks = character_marks_by_place(reference, hypothesis)
        words, characters = defaultdict(list), defaultdict(list)
        for name, letters in zip(names, word_marks, strict=True):
            words[name].append(letters)
        for word, letters in zip(word_of_each_character(reference), character_marks, strict=True):
            characters[names[word]].append(letters)
        shares += [Share(utterance, name, count(words[name]), count(characters[name])) for name in words]
    return shares


def marks_by_place(marks: Iterable[str], length: int) -> list[str]:
    """The marks (S, D, I or a space) at each place of the reference; insertions are at the place before, or the first.

    Args:
        marks: In the order of the alignment.
        length: Number of places.
    """
    places, place = [""] * length, -1
    for letter in marks:
        place += letter != "I"
        places[max(place, 0)] += letter
    return places


def character_marks_by_place(reference: str, hypothesis: str) -> list[str]:
    """The marks (S, D and I) at each character of the reference, as in `marks_by_place`; correct ones have none."""
    places = [""] * len(reference)
    for operation in Levenshtein.editops(reference, hypothesis):
        place = operation.src_pos - (operation.tag == "insert")
        places[max(place, 0)] += LETTERS[operation.tag]
    return places


def confused_characters(references: Sequence[str], hypotheses: Sequence[str]) -> list[tuple[str, str, int]]:
    """Count the substitutions of characters: (reference, hypothesis, count), sorted by count, then alphabetically."""
    pairs = Counter(
        (true[operation.src_pos], output[operation.dest_pos])
        for true, output in zip(references, hypotheses, strict=True)
        for operation in Levenshtein.editops(true, output)
        if operation.tag == "replace"
    )
    return sorted(((*pair, number) for pair, number in pairs.items()), key=lambda row: (-row[2], row))


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


def group_score(shares: Sequence[Share], resamples: int = RESAMPLES) -> GroupScore:
    """The error rates of some shares, with intervals.

    Args:
        shares: At least one.
        resamples: Number of resamples of the bootstrap.
    """
    groups = [share.speaker for share in shares]
    if len(set(groups)) == 1:
        groups = [share.utterance for share in shares]

    def interval(counts: Sequence[ErrorCounts]) -> tuple[float, float] | None:
        if len(set(groups)) == 1:
            return None
        errors = torch.tensor([one.errors for one in counts], dtype=torch.float64)
        lengths = torch.tensor([one.length for one in counts], dtype=torch.float64)
        return bootstrap_ratio_interval(errors, lengths, resamples=resamples, groups=groups)

    words, characters = [share.words for share in shares], [share.characters for share in shares]
    utterances = len({share.utterance for share in shares})
    return GroupScore(utterances, total(words), total(characters), interval(words), interval(characters))


def group_scores(
    shares: Iterable[Share], key: Callable[[Share], Any], resamples: int = RESAMPLES
) -> dict[Any, GroupScore]:
    """The error rates of each group of shares: those with the same key, sorted by it.

    Args:
        shares: From `count_errors`.
        key: The group of a share, such as its speaker.
        resamples: Number of resamples of the bootstrap.
    """
    groups = defaultdict(list)
    for share in shares:
        groups[key(share)].append(share)
    return {name: group_score(groups[name], resamples) for name in sorted(groups)}
