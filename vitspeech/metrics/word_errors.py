"""Word and character error rates of transcripts, alignments of words, and confusions.

The word error rate is that of torchmetrics; the alignments, which torchmetrics does not return, are computed here.
Distances of characters are rapidfuzz's, since transcripts have hundreds of them.
`vitspeech.metrics.word_errors` counts errors by speaker and by length.

Errors of words and characters, counted for each speaker of each utterance, and their rates over any group of them.

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
from torchmetrics.functional.text import word_error_rate

from vitspeech.metrics.intervals import bootstrap_ratio_interval

RESAMPLES = 10_000
MISSING = "***"
HEADS = ("REF: ", "HYP: ", "     ")
WIDTH = 100  # columns of a listing


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
        return "".join(mark(*pair) for pair in self.pairs)

    @property
    def substitutions(self) -> int:
        """Words replaced by others."""
        return self.marks.count("S")

    @property
    def deletions(self) -> int:
        """Reference words without a counterpart in the hypothesis."""
        return self.marks.count("D")

    @property
    def insertions(self) -> int:
        """Hypothesis words without a counterpart in the reference."""
        return self.marks.count("I")

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions: the edit distance."""
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


def mark(reference: str | None, hypothesis: str | None) -> str:
    """The letter of a pair's error, or a space for a correct word."""
    if reference == hypothesis:
        return " "
    if hypothesis is None:
        return "D"
    return "I" if reference is None else "S"


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
    """Align the words of each utterance.

    Raises:
        ValueError: If there are no utterances, the numbers of references and hypotheses differ, or a reference is
            empty.
    """
    check(references, hypotheses)
    return [align(true.split(), output.split()) for true, output in zip(references, hypotheses, strict=True)]


@dataclass(frozen=True)
class Score:
    """Word errors of a set of utterances. Rates are proportions (0.08) of all words, not means over utterances.

    Args:
        wer: Word error rate, (substitutions + deletions + insertions) / words; may exceed 1.
        wer_low: Lower end of its 95 % interval, by bootstrap over speakers if there are several, else over utterances.
        wer_high: Upper end of the interval.
        substitutions: Words replaced by others.
        deletions: Reference words without a counterpart.
        insertions: Hypothesis words without a counterpart.
        words: Number of reference words.
        utterances: Number of utterances.
        utterance_accuracy: Proportion of the utterances without an error.
        speakers: Number of speakers; `None` if they are unknown.
    """

    wer: float
    wer_low: float
    wer_high: float
    substitutions: int
    deletions: int
    insertions: int
    words: int
    utterances: int
    utterance_accuracy: float
    speakers: int | None = None


def score(
    references: Sequence[str], hypotheses: Sequence[str], speakers: Sequence[Sequence[str]] | None = None
) -> Score:
    """Count the word errors of transcripts. Words are separated by spaces; case and punctuation matter.

    Errors of one speaker are not independent, so the interval resamples speakers with all words that they speak, also
    where an utterance has several speakers. It resamples utterances if the speakers are unknown or there is only one.

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
    errors = torch.tensor([alignment.errors for alignment in aligned], dtype=torch.float64)
    lengths = torch.tensor([alignment.length for alignment in aligned], dtype=torch.float64)
    names = None if speakers is None else [speaker for row in speakers for speaker in row]
    if names is None or len(set(names)) == 1:
        low, high = bootstrap_ratio_interval(errors, lengths, resamples=RESAMPLES)
    else:
        by_word = torch.tensor(
            [count for alignment in aligned for count in errors_by_word(alignment)], dtype=torch.float64
        )
        low, high = bootstrap_ratio_interval(by_word, torch.ones_like(by_word), resamples=RESAMPLES, groups=names)
    return Score(
        wer=word_error_rate(list(hypotheses), list(references)).item(),
        wer_low=low,
        wer_high=high,
        substitutions=sum(alignment.substitutions for alignment in aligned),
        deletions=sum(alignment.deletions for alignment in aligned),
        insertions=sum(alignment.insertions for alignment in aligned),
        words=int(lengths.sum()),
        utterances=len(aligned),
        utterance_accuracy=(errors == 0).double().mean().item(),
        speakers=None if names is None else len(set(names)),
    )


def errors_by_word(alignment: Alignment) -> list[int]:
    """The errors at each reference word; an insertion counts at the word before it, or at the first."""
    counts = [0] * alignment.length
    word = -1
    for reference, hypothesis in alignment.pairs:
        word += reference is not None
        counts[max(word, 0)] += reference != hypothesis
    return counts


def check_speakers(aligned: Sequence[Alignment], speakers: Sequence[Sequence[str]]) -> None:
    """Raise `ValueError` unless there is one speaker per reference word."""
    if [len(row) for row in speakers] != [alignment.length for alignment in aligned]:
        raise ValueError("speakers must have one entry per word of each reference")


def character_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Character errors (spaces included) per character of the references.

    Raises:
        ValueError: If there are no utterances, the numbers of references and hypotheses differ, or a reference is
            empty.
    """
    check(references, hypotheses)
    errors = sum(Levenshtein.distance(true, output) for true, output in zip(references, hypotheses, strict=True))
    return (torch.tensor(errors).float() / torch.tensor(sum(map(len, references))).float()).item()


def worst(references: Sequence[str], hypotheses: Sequence[str], names: Sequence[str], *, count: int = 10) -> list[str]:
    """Report the `count` utterances with the most errors: lines with each one's name and alignment.

    Alignments are wrapped at 100 columns; an empty line stands for the marks of a part without errors.

    Raises:
        ValueError: As `score`, or if the numbers of names and references differ.
    """
    if len(names) != len(references):
        raise ValueError(f"{len(names)} names for {len(references)} references")
    named = zip(names, alignments(references, hypotheses), strict=True)
    wrong = [(name, alignment) for name, alignment in named if alignment.errors]
    lines = []
    for name, alignment in sorted(wrong, key=lambda pair: -pair[1].errors)[:count]:
        lines.append(f"{name}: errors {alignment.errors}, words {alignment.length}")
        lines += alignment.rows(WIDTH)
    return lines


def confusions(alignments: Iterable[Alignment]) -> list[tuple[str, str, int]]:
    """Count the substitutions: (reference, hypothesis, count), sorted by count, then alphabetically."""
    pairs = (pair for alignment in alignments for pair in alignment.pairs if mark(*pair) == "S")
    return sorted(((*pair, number) for pair, number in Counter(pairs).items()), key=lambda row: (-row[2], row))


def check(references: Sequence[str], hypotheses: Sequence[str]) -> None:
    """Raise `ValueError` for transcripts whose error rate is undefined."""
    if isinstance(references, str) or isinstance(hypotheses, str):
        raise ValueError("references and hypotheses must be lists with one transcript per utterance, not strings")
    if len(references) != len(hypotheses):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    if not len(references):
        raise ValueError("no utterances to score")
    empty = [index for index, reference in enumerate(references) if not reference.split()]
    if empty:
        raise ValueError(f"references[{empty[0]}]={references[empty[0]]!r} has no words")


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
