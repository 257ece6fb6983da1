"""Errors of transcripts: how many, of which kind, in which words.

The word error rate is torchmetrics'; which words were taken for which is found by an alignment of our own.

Shapes: U utterances, R resamples.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torchmetrics.functional.text import char_error_rate, word_error_rate

from vitspeech.metrics.intervals import bootstrap_ratio_interval

RESAMPLES = 1000
MISSING = "***"


@dataclass(frozen=True)
class Alignment:
    """What was said beside what was understood, with the fewest errors.

    Args:
        pairs: (reference, hypothesis) in order; `None` for the hypothesis is a deletion, for the reference an
            insertion.
    """

    pairs: tuple[tuple[str | None, str | None], ...]

    @property
    def marks(self) -> str:
        """A letter for each pair: S, D or I, and a space where nothing is wrong."""
        return "".join(mark(*pair) for pair in self.pairs)

    @property
    def substitutions(self) -> int:
        """Words taken for others."""
        return self.marks.count("S")

    @property
    def deletions(self) -> int:
        """Words of the reference that weren't understood."""
        return self.marks.count("D")

    @property
    def insertions(self) -> int:
        """Words of the hypothesis that nobody said."""
        return self.marks.count("I")

    @property
    def errors(self) -> int:
        """All three kinds together: the edit distance."""
        return len(self.pairs) - self.marks.count(" ")

    @property
    def length(self) -> int:
        """Words of the reference."""
        return sum(reference is not None for reference, _ in self.pairs)

    def __str__(self) -> str:
        """Two lines, word under word, and a third that marks the errors where there are any."""
        shown = [[MISSING if word is None else word.replace(" ", "␣") for word in pair] for pair in self.pairs]
        columns = [(*words, letter) for words, letter in zip(shown, self.marks, strict=True)]
        widths = [max(map(len, column)) for column in columns]
        rows = [
            head + " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            for head, cells in zip(("REF: ", "HYP: ", "     "), zip(*columns, strict=True), strict=False)
        ]
        return "\n".join(row.rstrip() for row in rows if row.strip())


def mark(reference: str | None, hypothesis: str | None) -> str:
    """The letter of a pair's error, a space for none."""
    if reference == hypothesis:
        return " "
    if hypothesis is None:
        return "D"
    return "I" if reference is None else "S"


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """The alignment of two lists of words (or of characters) with the fewest errors (Levenshtein 1966).

    Of alignments with equally few it is, from the end backwards, the one that pairs words, alike or not, before it
    deletes, and that deletes before it inserts: so an error that can be one substitution is.
    """
    costs = [list(range(len(hypothesis) + 1))]  # [of so many words of the reference][and of the hypothesis]
    for row, said in enumerate(reference, 1):
        above, costs_here = costs[-1], [row]
        for column, understood in enumerate(hypothesis):
            paired = above[column] + (said != understood)
            costs_here.append(min(paired, above[column + 1] + 1, costs_here[column] + 1))
        costs.append(costs_here)

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
    """Each utterance's alignment, word by word.

    Raises:
        ValueError: If there are no utterances, not as many hypotheses as references, or a reference is empty.
    """
    check(references, hypotheses)
    return [align(said.split(), understood.split()) for said, understood in zip(references, hypotheses, strict=True)]


@dataclass(frozen=True)
class Score:
    """How well a set of utterances was understood; rates are shares (0.08), and of all words, not means of utterances.

    Args:
        wer: Word error rate, (substitutions + deletions + insertions) / words; above 1 where much is inserted.
        wer_low: Where its 95 % interval begins, by bootstrap over utterances (Bisani and Ney 2004).
        wer_high: Where it ends.
        substitutions: Words taken for others.
        deletions: Words that weren't understood.
        insertions: Words that nobody said.
        words: Of the references.
        utterances: How many.
        utterance_accuracy: Share of the utterances without an error.
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


def score(references: Sequence[str], hypotheses: Sequence[str]) -> Score:
    """Score transcripts, words divided by spaces; case and punctuation count.

    Raises:
        ValueError: If there are no utterances, not as many hypotheses as references, or a reference is empty.
    """
    found = alignments(references, hypotheses)
    errors = torch.tensor([alignment.errors for alignment in found], dtype=torch.float64)
    lengths = torch.tensor([alignment.length for alignment in found], dtype=torch.float64)
    low, high = bootstrap_ratio_interval(errors, lengths, resamples=RESAMPLES)
    return Score(
        wer=word_error_rate(list(hypotheses), list(references)).item(),
        wer_low=low,
        wer_high=high,
        substitutions=sum(alignment.substitutions for alignment in found),
        deletions=sum(alignment.deletions for alignment in found),
        insertions=sum(alignment.insertions for alignment in found),
        words=int(lengths.sum()),
        utterances=len(found),
        utterance_accuracy=(errors == 0).double().mean().item(),
    )


def character_error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Errors in characters, spaces among them, as a share of the references' characters.

    Raises:
        ValueError: If there are no utterances, not as many hypotheses as references, or a reference is empty.
    """
    check(references, hypotheses)
    return char_error_rate(list(hypotheses), list(references)).item()


def worst(references: Sequence[str], hypotheses: Sequence[str], names: Sequence[str], *, count: int = 10) -> list[str]:
    """The utterances with the most errors, those alike in their order: lines that give each one's name and words.

    Raises:
        ValueError: As `score`, or if there are not as many names as references.
    """
    if len(names) != len(references):
        raise ValueError(f"{len(names)} names for {len(references)} references")
    found = [pair for pair in zip(names, alignments(references, hypotheses), strict=True) if pair[1].errors]
    lines = []
    for name, alignment in sorted(found, key=lambda pair: -pair[1].errors)[:count]:
        lines.append(f"{name}: {alignment.errors} wrong, {alignment.length} said")
        lines += str(alignment).splitlines()
    return lines


def confusions(alignments: Iterable[Alignment]) -> list[tuple[str, str, int]]:
    """Which words are taken for which: (reference, hypothesis, count), the most common first, then by the alphabet."""
    pairs = (pair for alignment in alignments for pair in alignment.pairs if mark(*pair) == "S")
    return sorted(((*pair, number) for pair, number in Counter(pairs).items()), key=lambda row: (-row[2], row))


def check(references: Sequence[str], hypotheses: Sequence[str]) -> None:
    """Refuse what has no error rate."""
    if isinstance(references, str) or isinstance(hypotheses, str):
        raise ValueError("one string for all utterances: give a list with a transcript for each")
    if len(references) != len(hypotheses):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    if not len(references):
        raise ValueError("no utterances to score")
    empty = [place for place, reference in enumerate(references) if not reference.split()]
    if empty:
        raise ValueError(f"references[{empty[0]}] is empty: {references[empty[0]]!r} has no words to get wrong")
