"""The pictures of the report: misses against false alarms an hour, and the spectrogram of one alarm."""

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter
from torch import Tensor

from vitspeech.frontends.log_mel import LogMel
from vitspeech.plots.style import BLACK, EMPTY_GRAY, HIGHLIGHT_GRAY, SPECTROGRAM, plain, series_styles
from vitspeech.spotting.streams import KEYWORDS, NAMES

DPI = 110
COLUMNS = 4  # of the panels of single words
LEAST_MISSES = 0.002  # of the axis; fewer are drawn here


def draw_det(summary: Mapping[str, Any]) -> bytes:
    """A PNG of misses against false alarms an hour: a panel of all words for each condition, then one for each word.

    A curve is drawn solid down to its last alarm. Without an alarm the rate is not 0 but below a bound, so the rest of
    the curve is one dashed line at the bound of the 95 % interval, and the area beyond it is gray.
    """
    conditions = [name for name in summary["conditions"] if name != KEYWORDS]
    words = list(summary["operating_point"]["words"])
    rows = math.ceil(len(words) / COLUMNS)
    figure = Figure(figsize=(12, 4.6 + 2.7 * rows), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[4.2, 2.7 * rows])
    for axes, condition in zip(numpy.atleast_1d(top.subplots(1, len(conditions))), conditions, strict=True):
        draw_panel(axes, summary, condition, None)
        axes.set_title(f"all words; {NAMES[condition]}, {summary['conditions'][condition]['hours']:.2f} h")
        axes.set_xlabel("false alarms an hour")
        axes.set_ylabel("misses")
    levels = summary["operating_point"]["all"]["misses"]
    labels = ["no noise" if level == "clean" else f"noise at {level}" for level in levels]
    handles = [
        Line2D([], [], color=style.color, linestyle=style.dashes, marker=style.marker, label=label)
        for label, style in zip(labels, series_styles(len(labels)), strict=True)
    ]
    top.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
    grid = numpy.atleast_1d(bottom.subplots(rows, COLUMNS, sharex=True, sharey=True)).ravel()
    for axes, word in zip(grid, words, strict=False):
        draw_panel(axes, summary, conditions[0], word)
        axes.set_title(plain(word), fontsize=10)
    for axes in grid[len(words) :]:
        axes.set_axis_off()
    bottom.supxlabel(f"false alarms an hour of {NAMES[conditions[0]]}", fontsize=10)
    bottom.supylabel("misses", fontsize=10)
    return as_png(figure)


def draw_panel(axes: Axes, summary: Mapping[str, Any], condition: str, word: str | None) -> None:
    """One panel: a curve for each noise level, and the operating point with its intervals."""
    point = summary["operating_point"]
    own = point["all"] if word is None else point["words"][word]
    rows = [row["all"] if word is None else row["words"][word] for row in summary["curve"]]
    hours = min((row["alarms"][condition]["hours"] for row in rows if row["alarms"][condition]["hours"]), default=0)
    axes.set(xscale="log", yscale="log")
    if not hours:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
        return
    bound = -math.log(0.025) / hours
    axes.axvspan(1e-6, bound, color=HIGHLIGHT_GRAY, zorder=0)
    largest = bound
    for (level, miss), style in zip(own["misses"].items(), series_styles(len(own["misses"])), strict=True):
        if miss["rate"] is None:
            continue
        pairs = [(row["alarms"][condition], row["misses"][level]["rate"]) for row in rows]
        seen = [(rate["per_hour"], max(value, LEAST_MISSES)) for rate, value in pairs if rate["alarms"]]
        unseen = [max(value, LEAST_MISSES) for rate, value in pairs if not rate["alarms"]]
        if seen:
            axes.plot(*zip(*seen, strict=True), color=style.color, linestyle=style.dashes, drawstyle="steps-pre")
            largest = max(largest, seen[0][0])
        if unseen:
            axes.plot([bound, bound], [min(unseen), 1.0], color=style.color, linestyle=":", linewidth=1)
            axes.plot([bound], [min(unseen)], color=style.color, marker="<", markersize=5, markerfacecolor="white")
        draw_point(axes, own["alarms"][condition], miss, bound, style)
    axes.set_xlim(bound / 12, max(2 * largest, 10 * bound))
    axes.set_ylim(LEAST_MISSES * 0.8, 1.1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axes.grid(alpha=0.3, which="major")


def draw_point(axes: Axes, alarms: dict[str, Any], miss: dict[str, Any], bound: float, style: Any) -> None:
    """The operating point with the 95 % intervals of both rates."""
    x, y = (alarms["per_hour"] or bound), max(miss["rate"], LEAST_MISSES)
    low, high = miss.get("interval_95") or (miss["rate"], miss["rate"])
    left, right = max(alarms["low"], 1e-6), alarms["high"]
    errors = [[max(x - left, 0)], [max(right - x, 0)]], [[y - max(min(low, y), LEAST_MISSES)], [max(high - y, 0)]]
    look = {"color": style.color, "marker": style.marker, "markersize": 5, "markeredgecolor": BLACK}
    axes.errorbar([x], [y], xerr=errors[0], yerr=errors[1], ecolor=EMPTY_GRAY, capsize=2, zorder=5, **look)


def draw_alarm(log_mel: LogMel, samples: Tensor, start_s: float, end_s: float, label: str) -> bytes:
    """The spectrogram of a cut, int16 (N,), with the alarm's span between two lines: a PNG."""
    figure = Figure(figsize=(3.4, 1.5), layout="constrained")
    axes = figure.subplots()
    energies = log_mel.log_energies(samples[None] / 32768)[0].T.cpu().numpy()
    seconds = len(samples) / log_mel.sample_rate_hz
    floor = energies.max() - 9  # nats: 40 dB
    axes.imshow(energies, cmap=SPECTROGRAM, aspect="auto", origin="lower", extent=(0, seconds, 0, 1), vmin=floor)
    for time in (start_s, end_s):
        axes.axvline(time, color="white", linestyle="--", linewidth=1)
    axes.set_yticks([])
    axes.set_xlabel("s", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.set_title(plain(label), fontsize=9)
    return as_png(figure)


def as_png(figure: Figure) -> bytes:
    """A figure as a file."""
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI)
    return png.getvalue()
