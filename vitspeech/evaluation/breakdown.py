"""Error rates of transcripts by speaker and by length, with their intervals: two tables and a figure."""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

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
from vitspeech.plots.style import BLUE, GRAY, VERMILION, plain

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
        unit, bins = by_length(one)
        for begin, end, score in bins:
            length_rows.append((one.name, unit, begin, end, *numbers(score)))
        named = {
            f"≥ {begin}" if end == "" else str(begin) if begin == end else f"{begin}–{end}": score
            for begin, end, score in bins
        }
        whole, by_name = group_score(one.errors, RESAMPLES), {str(name): score for name, score in speakers.items()}
        drawn.append(Breakdown(one.name, whole, by_name, named, unit, main))
    if speaker_rows:
        write_csv(folder / SPEAKERS, ["test_set", "speaker", *SCORES], speaker_rows)
    write_csv(folder / LENGTHS, ["test_set", "length_in", "from", "to", *SCORES], length_rows)
    draw_error_rates(drawn, folder / FIGURE)


def by_length(one: Transcribed) -> tuple[str, list[tuple[int, int | str, GroupScore]]]:
    """What lengths are measured in, and the bins with utterances: begin, end and score of each.

    A duration is below the end of its bin. A number of words is at most the end. The last bin has none: "".
    """
    if one.seconds is not None:
        unit, lengths, begins = "seconds", one.seconds, SECONDS
        ends = [*begins[1:], ""]
    else:
        unit, lengths = "words", [len(text.split()) for text in one.references]
        begins = range(1, FEW_WORDS + 1) if max(lengths) <= FEW_WORDS else WORDS
        ends = begins if begins is not WORDS else [*(begin - 1 for begin in begins[1:]), ""]
    places = [bisect_right(begins, length) - 1 for length in lengths]
    scores = group_scores(one.errors, lambda errors: places[errors.utterance], RESAMPLES)
    return unit, [(begins[place], ends[place], score) for place, score in scores.items()]


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


MOST_NAMES = 60  # speakers; of more, names are left out
LONGEST_NAME = 16  # characters
INCHES_PER_GROUP, INCHES_PER_LENGTH, HEIGHT = 0.3, 0.75, 3.6
SHORTEST, WIDEST = 3.2, 14.0  # inches of a panel
APART = 0.14  # of the two rates of a group, in groups


@dataclass(frozen=True)
class Breakdown:
    """The error rates of one test set."""

    name: str  # the test set
    whole: GroupScore  # over all utterances
    speakers: Mapping[str, GroupScore]  # by speaker; empty if they are unknown
    lengths: Mapping[str, GroupScore]  # by length, each with the name of its bin
    unit: str  # what lengths are measured in: `seconds` or `words`
    main: str  # the rate by which speakers are sorted: `words` or `characters`


STYLES = {"characters": (BLUE, "o"), "words": (VERMILION, "s")}  # color and marker of each rate


def percent(score: GroupScore, name: str) -> tuple[float, list[float]]:
    """The rate `characters` or `words` of a group, and the ends of its interval if it is known, in percent."""
    of_words = score.words, score.word_interval
    counts, interval = of_words if name == "words" else (score.characters, score.character_interval)
    return 100 * counts.rate, [100 * end for end in interval or ()]


def draw_error_rates(test_sets: Sequence[Breakdown], output: Path) -> None:
    """Draw the error rates of words and of characters: by speaker, sorted, and by length, one row for each test set.

    Vertical lines are 95 % intervals. The horizontal lines, and the bands around them, are those of all utterances.
    """
    widths = [panel_width(max(len(one.lengths) for one in test_sets), INCHES_PER_LENGTH)]
    if any(one.speakers for one in test_sets):
        widths.insert(0, panel_width(max(len(one.speakers) for one in test_sets), INCHES_PER_GROUP))
    shown = [name for one in test_sets if len(one.speakers) <= MOST_NAMES for name in one.speakers]
    names = max(map(len, shown), default=0)
    height = len(test_sets) * (HEIGHT + 0.07 * min(names, LONGEST_NAME)) + 0.3
    figure = Figure(figsize=(sum(widths) + 0.6, height), layout="constrained")
    rows = figure.subplots(len(test_sets), len(widths), width_ratios=widths, squeeze=False, sharey="row")
    for row, one in zip(rows, test_sets, strict=True):
        draw_lengths(row[-1], one)
        if len(row) > 1:
            draw_speakers(row[0], one)
        row[0].set_ylabel("error rate (%)")
        row[0].set_ylim(bottom=0)
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="", label=name) for name, (color, marker) in STYLES.items()
    ]
    handles += [Line2D([], [], color=GRAY, linewidth=1, linestyle="--", label="all utterances, with 95 % interval")]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    figure.savefig(output, dpi=130)


def panel_width(groups: int, inches: float) -> float:
    """The width in inches of a panel with some groups."""
    return min(max(inches * groups, SHORTEST), WIDEST)


def draw_speakers(axes: Axes, one: Breakdown) -> None:
    """Draw the rates of each speaker, sorted by the main one."""
    names = sorted(one.speakers, key=lambda name: (percent(one.speakers[name], one.main)[0], name))
    few = len(names) <= MOST_NAMES
    draw_groups(axes, [one.speakers[name] for name in names], one.whole, STYLES if few else (one.main,))
    axes.set_title(f"{plain(one.name)}: by speaker", fontsize=11)
    if few:
        short = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in names]
        rotation = 90 if max(map(len, short), default=0) > 3 else 0
        axes.set_xticks(range(len(names)), [plain(name) for name in short], rotation=rotation, fontsize=9)
        axes.set_xlabel(f"speaker, by the error rate of {one.main}")
    else:
        axes.set_xlabel(f"{len(names):,} speakers, by the error rate of {one.main}")


def draw_lengths(axes: Axes, one: Breakdown) -> None:
    """Draw the rates of each bin of lengths, with its number of utterances."""
    draw_groups(axes, list(one.lengths.values()), one.whole)
    rates = sorted((percent(one.whole, name)[0], color) for name, (color, _) in STYLES.items())
    for (rate, color), side in zip(rates, ("top", "bottom"), strict=True):  # so that close numbers do not overlap
        options = {"transform": axes.get_yaxis_transform(), "color": color, "va": side, "fontsize": 9}
        axes.text(1.01, rate, f"{rate:.1f}", **options)
    ticks = [f"{plain(name)}\n({score.utterances:,})" for name, score in one.lengths.items()]
    axes.set_xticks(range(len(ticks)), ticks, fontsize=9)
    title = {"seconds": "duration", "words": "number of words"}[one.unit]
    axes.set_title(f"{plain(one.name)}: by {title}", fontsize=11)
    axes.set_xlabel(f"{title} (utterances)" if one.unit == "words" else f"{title} in seconds (utterances)")


def draw_groups(axes: Axes, scores: Sequence[GroupScore], whole: GroupScore, names: Collection[str] = STYLES) -> None:
    """Draw the rates of these names of each group, side by side, and those of all utterances as lines."""
    sides_of_center, size = ((-APART, APART), 5) if len(names) > 1 else ((0,), 3)
    for side, name in zip(sides_of_center, names, strict=True):
        color, marker = STYLES[name]
        total, ends = percent(whole, name)
        axes.axhline(total, color=color, linewidth=1, linestyle="--", zorder=1)
        if ends:
            axes.axhspan(*ends, color=color, alpha=0.1, linewidth=0, zorder=0)
        for place, score in enumerate(scores):
            rate, ends = percent(score, name)
            if ends:
                axes.vlines(place + side, *ends, color=color, linewidth=1.5, alpha=0.7)
            axes.plot(place + side, rate, marker, color=color, markersize=size)
    axes.set_xlim(-0.7, len(scores) - 0.3)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelleft=True)
