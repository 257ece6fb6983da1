"""The log-log plot of the attention benchmark: slope 1 is linear in the length, slope 2 quadratic."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.variants import PASSES
from vitspeech.plots.style import BLACK, BLUE, GRAY, GREEN, ORANGE, PURPLE, SKY_BLUE, VERMILION

STYLES = {
    "ours": (BLUE, "o"),
    "layer of ours": (BLUE, "h"),
    "products of ours": (BLUE, "."),
    "full": (BLACK, "s"),
    "dense mask": (PURPLE, "D"),
    "local-attention": (VERMILION, "^"),
    "flex by hand": (SKY_BLUE, "v"),
    "varlen": (GRAY, "<"),
    "LSTM": (ORANGE, "P"),
    "convolution": (GREEN, "X"),
}
Lines = dict[str, list[tuple[int, float]]]


def draw(report: dict[str, Any], path: Path) -> None:
    """One row of panels per dtype: forward time, forward+backward time, and peak memory if it was measured."""
    settings = report["settings"]
    dtypes, lengths = settings["dtypes"], sorted(set(settings["tokens"]))
    columns = len(PASSES) + bool(report["memory"])
    figure, grid = pyplot.subplots(
        len(dtypes), columns, figsize=(4.2 * columns, 3.5 * len(dtypes) + 0.7), squeeze=False, layout="constrained"
    )
    for dtype, row in zip(dtypes, grid, strict=True):
        for which, axes in zip(PASSES, row, strict=False):
            cells = [cell for cell in report["cells"] if (cell["dtype"], cell["pass"]) == (dtype, which)]
            panel(axes, time_lines(cells), f"{which}, {dtype}", "time (ms)", lengths)
        if report["memory"]:
            cells = [cell for cell in report["memory"] if cell["dtype"] == dtype]
            panel(
                row[-1], memory_lines(cells), f"memory, forward+backward, {dtype}", "peak beyond inputs (MiB)", lengths
            )
    lines = {line.get_label(): line for axes in grid.flat for line in axes.get_lines()}
    names = [name for name in STYLES if name in lines]
    figure.legend([lines[name] for name in names], names, loc="outside lower center", ncols=len(names))
    size = f"batch {settings['batch']}, {settings['heads']} heads of {settings['width']}"
    figure.suptitle(f"{size}, window {settings['left']} + 1 + {settings['right']}; {report['hardware']}", fontsize=11)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def time_lines(cells: list[dict[str, Any]]) -> Lines:
    """Lengths and median times of each variant that ran."""
    lines = {}
    for cell in cells:
        for name, time in cell["times"].items():
            lines.setdefault(name, []).append((cell["tokens"], time["median_ms"]))
    return lines


def memory_lines(cells: list[dict[str, Any]]) -> Lines:
    """Lengths and peaks of each variant that ran; a peak of 0 cannot be drawn on a logarithmic axis."""
    lines = {}
    for cell in cells:
        if cell.get("extra_mib"):
            lines.setdefault(cell["variant"], []).append((cell["tokens"], cell["extra_mib"]))
    return lines


def panel(axes: pyplot.Axes, lines: Lines, title: str, label: str, lengths: list[int]) -> None:
    """One line per variant; ours is drawn on top."""
    for name, points in lines.items():
        color, marker = STYLES[name]
        ours = name == "ours"
        axes.plot(
            *zip(*points, strict=True),
            color=color,
            marker=marker,
            markersize=6,
            linewidth=2.8 if ours else 1.4,
            zorder=3 if ours else 2,
            label=name,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(title=title, xlabel="tokens T", ylabel=label)
    axes.set_xticks(lengths, [f"{tokens:,}" for tokens in lengths])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 3), numticks=12))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.grid(alpha=0.3)
