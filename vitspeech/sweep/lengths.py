"""The figure of a sweep over sequence tasks: accuracy by the length of the input."""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure

from vitspeech.documents import read_text
from vitspeech.errors import InputError
from vitspeech.plots.style import GRAY, plain, series_styles
from vitspeech.sweep.results import Row

LENGTHS = "lengths.csv"  # of a run
MAIN = "sequence_accuracy"  # of runs on sequence tasks; recognizers have a table of this name with other columns
Curve = dict[int, float]


def draw_lengths(folder: Path, rows: Sequence[Row], output: Path) -> bool:
    """Draw the sequence accuracy of each variant by length, if they are of sequence tasks; say whether.

    Lines are means over seeds, dots the seeds. The dotted line is at the longest length of training.

    Args:
        folder: The folder of the sweep.
        rows: Its runs.
        output: The PNG file.

    Raises:
        InputError: If a `lengths.csv` is not one.
    """
    curves, trained = defaultdict(list), 0
    for row in rows:
        file = folder / row.variant / f"seed-{row.seed}" / LENGTHS
        if row.result is not None and row.result.main == MAIN and file.is_file():
            curve, longest = read_lengths(file)
            curves[row.variant].append(curve)
            trained = max(trained, longest)
    if curves:
        draw(curves, trained, output)
    return bool(curves)


def read_lengths(file: Path) -> tuple[Curve, int]:
    """The sequence accuracy by number of input symbols, and the largest number in the first test set, as in training.

    Raises:
        InputError: If it is not such a table.
    """
    rows = list(csv.DictReader(read_text(file).splitlines()))
    try:
        curve = {int(row["input_symbols"]): float(row["sequence_accuracy"]) for row in rows}
        return curve, max(int(row["input_symbols"]) for row in rows if row["test_set"] == rows[0]["test_set"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: not a table of accuracies by length ({error!r}); remove it") from None


def draw(curves: Mapping[str, Sequence[Curve]], trained: int, output: Path) -> None:
    """Draw the curves of each variant, one per seed."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for (name, seeds), style in zip(curves.items(), series_styles(len(curves)), strict=True):
        lengths = sorted({length for curve in seeds for length in curve})
        means = [100 * mean(curve[length] for curve in seeds if length in curve) for length in lengths]
        line = {"color": style.color, "linestyle": style.dashes, "marker": style.marker, "markersize": 5}
        axes.plot(lengths, means, **line, label=plain(f"{name} ({len(seeds)})"))
        for curve in seeds if len(seeds) > 1 else ():
            values = [100 * curve[length] for length in sorted(curve)]
            axes.plot(sorted(curve), values, ".", color=style.color, alpha=0.4, markersize=5)
    axes.axvline(trained, color=GRAY, linestyle=":", linewidth=1.2)
    axes.set(xlabel="input symbols (dotted: the longest in training)", ylabel="sequences right (%)", ylim=(-3, 103))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, title="variant (seeds)", title_fontsize=8)
    figure.savefig(output, dpi=110)
