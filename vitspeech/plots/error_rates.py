"""Error rates of transcripts by speaker and by length, with their intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vitspeech.metrics.word_errors import ErrorCounts, GroupScore
from vitspeech.plots.style import BLUE, GRAY, VERMILION, plain

MOST_NAMES = 60  # speakers; of more, names are left out
LONGEST_NAME = 16  # characters
INCHES_PER_GROUP, INCHES_PER_LENGTH, HEIGHT = 0.3, 0.75, 3.6
SHORTEST, WIDEST = 3.2, 14.0  # inches of a panel
APART = 0.14  # of the two rates of a group, in groups

Interval = tuple[float, float] | None


@dataclass(frozen=True)
class Breakdown:
    """The error rates of one test set.

    Args:
        name: The test set.
        whole: Over all utterances.
        speakers: By speaker; empty if they are unknown.
        lengths: By length, each with the name of its bin.
        unit: What lengths are measured in: `seconds` or `words`.
        main: The rate by which speakers are sorted: `words` or `characters`.
    """

    name: str
    whole: GroupScore
    speakers: Mapping[str, GroupScore]
    lengths: Mapping[str, GroupScore]
    unit: str
    main: str


@dataclass(frozen=True)
class Series:
    """One of the two rates, and how it is drawn."""

    name: str
    color: str
    marker: str
    counts: Callable[[GroupScore], ErrorCounts]
    interval: Callable[[GroupScore], Interval]


RATES = (
    Series("characters", BLUE, "o", lambda score: score.characters, lambda score: score.character_interval),
    Series("words", VERMILION, "s", lambda score: score.words, lambda score: score.word_interval),
)


def draw_error_rates(test_sets: Sequence[Breakdown], output: Path) -> None:
    """Draw the error rates of words and of characters: by speaker, sorted, and by length, one row for each test set.

    Vertical lines are 95 % intervals. The horizontal lines, and the bands around them, are those of all utterances.
    """
    widths = [panel_width(max(len(one.lengths) for one in test_sets), INCHES_PER_LENGTH)]
    if any(one.speakers for one in test_sets):
        widths.insert(0, panel_width(max(len(one.speakers) for one in test_sets), INCHES_PER_GROUP))
    names = max((len(name) for one in test_sets for name in shown_names(one)), default=0)
    height = len(test_sets) * (HEIGHT + 0.07 * min(names, LONGEST_NAME)) + 0.3
    figure = Figure(figsize=(sum(widths) + 0.6, height), layout="constrained")
    rows = figure.subplots(len(test_sets), len(widths), width_ratios=widths, squeeze=False, sharey="row")
    for row, one in zip(rows, test_sets, strict=True):
        draw_lengths(row[-1], one)
        if len(row) > 1:
            draw_speakers(row[0], one)
        row[0].set_ylabel("error rate (%)")
        row[0].set_ylim(bottom=0)
    handles = [Line2D([], [], color=one.color, marker=one.marker, linestyle="", label=one.name) for one in RATES]
    handles += [Line2D([], [], color=GRAY, linewidth=1, linestyle="--", label="all utterances, with 95 % interval")]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    figure.savefig(output, dpi=130)


def panel_width(groups: int, inches: float) -> float:
    """The width in inches of a panel with some groups."""
    return min(max(inches * groups, SHORTEST), WIDEST)


def shown_names(one: Breakdown) -> Sequence[str]:
    """The names of the speakers, if they are shown."""
    return list(one.speakers) if len(one.speakers) <= MOST_NAMES else []


def draw_speakers(axes: Axes, one: Breakdown) -> None:
    """Draw the rates of each speaker, sorted by the main one."""
    (main,) = (series for series in RATES if series.name == one.main)
    names = sorted(one.speakers, key=lambda name: (main.counts(one.speakers[name]).rate, name))
    few = len(names) <= MOST_NAMES
    draw_groups(axes, [one.speakers[name] for name in names], one.whole, RATES if few else (main,))
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
    ranking = sorted(RATES, key=lambda series: series.counts(one.whole).rate)
    for series, side in zip(ranking, ("top", "bottom"), strict=True):  # so that close numbers do not overlap
        rate = 100 * series.counts(one.whole).rate
        options = {"transform": axes.get_yaxis_transform(), "color": series.color, "va": side, "fontsize": 9}
        axes.text(1.01, rate, f"{rate:.1f}", **options)
    ticks = [f"{plain(name)}\n({score.utterances:,})" for name, score in one.lengths.items()]
    axes.set_xticks(range(len(ticks)), ticks, fontsize=9)
    title = {"seconds": "duration", "words": "number of words"}[one.unit]
    axes.set_title(f"{plain(one.name)}: by {title}", fontsize=11)
    axes.set_xlabel(f"{title} (utterances)" if one.unit == "words" else f"{title} in seconds (utterances)")


def draw_groups(
    axes: Axes, scores: Sequence[GroupScore], whole: GroupScore, series_drawn: Sequence[Series] = RATES
) -> None:
    """Draw the rates of each group, side by side, and those of all utterances as lines."""
    sides_of_center, size = ((-APART, APART), 5) if len(series_drawn) > 1 else ((0,), 3)
    for side, series in zip(sides_of_center, series_drawn, strict=True):
        total, bounds = 100 * series.counts(whole).rate, series.interval(whole)
        axes.axhline(total, color=series.color, linewidth=1, linestyle="--", zorder=1)
        if bounds is not None:
            axes.axhspan(*(100 * bound for bound in bounds), color=series.color, alpha=0.1, linewidth=0, zorder=0)
        for place, score in enumerate(scores):
            if (sides := series.interval(score)) is not None:
                axes.vlines(place + side, 100 * sides[0], 100 * sides[1], color=series.color, linewidth=1.5, alpha=0.7)
            rate = 100 * series.counts(score).rate
            axes.plot(place + side, rate, series.marker, color=series.color, markersize=size)
    axes.set_xlim(-0.7, len(scores) - 0.3)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelleft=True)
