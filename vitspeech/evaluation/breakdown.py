"""Error rates of transcripts by speaker and by length: two tables and a figure."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vitspeech.files import write_csv
from vitspeech.metrics.word_errors import (
    Alignment,
    GroupScore,
    SpeakerErrors,
    alignments,
    count_errors,
    group_score,
    group_scores,
)
from vitspeech.plots.error_rates import Breakdown, draw_error_rates

SPEAKERS, LENGTHS, FIGURE = "speakers.csv", "lengths.csv", "errors.png"
SECONDS = (0, 2, 5, 10, 15, 20, 25, 30)  # where bins of durations begin
FEW_WORDS, WORDS = 12, (1, 6, 11, 21, 31, 41, 61)  # up to FEW_WORDS, each number of words is a bin
RESAMPLES = 2000  # for each group; there may be hundreds of speakers
SCORES = (
    "utterances words word_error_rate word_low word_high substitutions deletions insertions characters "
    "character_error_rate character_low character_high"
).split()


@dataclass(frozen=True)
class Transcribed:
    """The transcripts of a test set: the true ones and those that were recognized."""

    name: str
    ids: Sequence[str]  # of the utterances
    references: Sequence[str]
    hypotheses: Sequence[str]
    speakers: Sequence[Sequence[str]] | None = None  # of each reference word of each utterance; `None` if unknown
    seconds: Sequence[float] | None = None  # of each utterance; `None` if unknown

    @cached_property
    def alignments(self) -> list[Alignment]:
        """The alignment of the words of each utterance."""
        return alignments(self.references, self.hypotheses)

    @cached_property
    def errors(self) -> list[SpeakerErrors]:
        """The errors of each speaker of each utterance."""
        return count_errors(self.references, self.hypotheses, self.speakers, self.alignments)

    @property
    def lengths(self) -> Sequence[float]:
        """The duration of each utterance in seconds, or its number of words."""
        return [len(text.split()) for text in self.references] if self.seconds is None else self.seconds

    @property
    def titles(self) -> list[str]:
        """The name of each utterance with test set, speakers and duration, as far as they are known."""
        titles = []
        for index, name in enumerate(self.ids):
            names = list(dict.fromkeys(self.speakers[index])) if self.speakers is not None else []
            facts = [f"speaker{'s' * (len(names) > 1)} {', '.join(map(str, names))}"] if names else []
            facts += [f"{self.seconds[index]:.1f} s"] if self.seconds is not None else []
            titles.append(f"{self.name}, {name}" + f" ({', '.join(facts)})" * bool(facts))
        return titles


def write_breakdowns(test_sets: Sequence[Transcribed], folder: Path, *, main: str) -> None:
    """Write `speakers.csv`, `lengths.csv` and `errors.png` into a folder.

    A table has one row for each speaker, or for each bin of lengths, of each test set. Intervals of a speaker resample
    utterances, those of a bin speakers if it has several; they are empty where there is only one utterance.
    `speakers.csv` is left out if no speakers are known.

    The figure sorts speakers by the `main` rate: `words` or `characters`.
    """
    speaker_rows, length_rows, drawn = [], [], []
    for one in test_sets:
        speakers = {} if one.speakers is None else group_scores(one.errors, lambda errors: errors.speaker, RESAMPLES)
        speaker_rows += [(one.name, name, *numbers(score)) for name, score in speakers.items()]
        unit, lengths, bins = "words" if one.seconds is None else "seconds", one.lengths, edges(one)
        places = [bisect_right(bins, length) - 1 for length in lengths]
        scores = group_scores(one.errors, lambda errors, places=places: places[errors.utterance], RESAMPLES)
        ends = {place: end_of(bins, place, unit) for place in scores}
        length_rows += [(one.name, unit, bins[place], ends[place], *numbers(scores[place])) for place in scores]
        named = {bin_name(bins[place], ends[place]): score for place, score in scores.items()}
        whole, by_name = group_score(one.errors, RESAMPLES), {str(name): score for name, score in speakers.items()}
        drawn.append(Breakdown(one.name, whole, by_name, named, unit, main))
    if speaker_rows:
        write_csv(folder / SPEAKERS, ["test_set", "speaker", *SCORES], speaker_rows)
    write_csv(folder / LENGTHS, ["test_set", "length_in", "from", "to", *SCORES], length_rows)
    draw_error_rates(drawn, folder / FIGURE)


def edges(one: Transcribed) -> Sequence[int]:
    """Where the bins of a test set's lengths begin."""
    if one.seconds is not None:
        return SECONDS
    longest = max(one.lengths)
    return range(1, FEW_WORDS + 1) if longest <= FEW_WORDS else WORDS


def end_of(bins: Sequence[int], place: int, unit: str) -> int | str:
    """The end of a bin: the duration before which it ends, or its last number of words; empty for the last bin."""
    if bins == range(1, FEW_WORDS + 1):
        return bins[place]
    return "" if place + 1 == len(bins) else bins[place + 1] - (unit == "words")


def bin_name(begin: int, end: int | str) -> str:
    """A bin as the figure names it."""
    return f"≥ {begin}" if end == "" else str(begin) if begin == end else f"{begin}–{end}"


def numbers(score: GroupScore) -> Iterable[int | str]:
    """The columns `SCORES`."""
    words, characters = score.words, score.characters
    return (
        score.utterances,
        words.length,
        *rates(words.rate, score.word_interval),
        words.substitutions,
        words.deletions,
        words.insertions,
        characters.length,
        *rates(characters.rate, score.character_interval),
    )


def rates(rate: float, interval: tuple[float, float] | None) -> list[str]:
    """A rate and its interval, which is empty if it is unknown."""
    return [f"{value:.4f}" if math.isfinite(value) else "" for value in (rate, *(interval or (math.nan, math.nan)))]
