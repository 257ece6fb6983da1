"""The table of encoders: how accurate each is over the seeds, what it costs, and how far it hears.

FOLDER/encoders.md, encoders.csv, encoders.json   one row for each encoder
FOLDER/encoders.png                                accuracy against clips/s
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vitspeech.files import write_csv, write_json, write_text
from vitspeech.sweep.encoder_figure import draw_encoders
from vitspeech.sweep.results import Summary, is_score, label
from vitspeech.sweep.table import difference_cell, score_cell

NOTE = """\
Mean ± sample standard deviation over n seeds; differences are paired by seed, with the 95 % interval of Student's t.
Minutes are those of training. FLOPs are those of a second of sound from the log-mel frames on, a multiply-add as two.
Clips/s are those of batches of {batch} clips of {seconds:g} s in {dtype}, with forward and backward pass and a step of
AdamW in training; all networks are timed in turn. The delay is from the first sample of a token to its output in a
stream, the real-time factor the time to stream on one thread over the duration of the sound. The field is effective:
90 % of the gradient energy before (after) the center of a token lies within it, mean over the seeds; nothing beyond the
clips of {seconds:g} s is measured. The path is the number of operations between two tokens one second apart (Vaswani et
al. 2017, table 1).

Measured on {hardware}, commit {commit}."""


@dataclass(frozen=True)
class EncoderRow:
    """One encoder of the comparison.

    Args:
        summary: Its test metrics over the seeds, parameters and minutes.
        cost: The numbers of `EncoderCost`: `flops_per_second`, `training_clips_per_second`, `clips_per_second`,
            `single_clips_per_second`, `delay_ms`, `real_time_factor` and `path_length`; the last three may be `None`.
        back_ms: Effective field before the center of a token, mean over the seeds.
        ahead_ms: The same after it.
        not_streamed: Why it can't be streamed; `None` if it can.
    """

    summary: Summary
    cost: Mapping[str, float | None]
    back_ms: float
    ahead_ms: float
    not_streamed: str | None

    def numbers(self, metric: str) -> dict[str, Any]:
        """All numbers by name, those of the test metrics from one main metric."""
        average, deviation = self.summary.scores[metric]
        difference = self.summary.difference
        low, high = (difference and difference.interval_95) or (None, None)
        return {
            "encoder": self.summary.variant,
            "n": len(self.summary.seeds),
            metric: average,
            f"{metric}_sd": deviation,
            "difference": difference and difference.mean,
            "difference_low": low,
            "difference_high": high,
            "parameters": self.summary.parameters,
            "minutes": self.summary.minutes,
            **self.cost,
            "field_back_ms": self.back_ms,
            "field_ahead_ms": self.ahead_ms,
            "not_streamed": self.not_streamed,
        }


def write_encoders(rows: Sequence[EncoderRow], metric: str, settings: Mapping[str, Any], folder: Path) -> list[str]:
    """Write the table of encoders and its figure.

    Args:
        rows: The encoders, the first one is the reference of differences.
        metric: The main metric.
        settings: How the costs were measured: `batch`, `seconds`, `dtype`, `hardware`, `commit`; others are written as
            they are.
        folder: Where the files are written.

    Returns:
        The lines of the table, with the reasons why encoders can't be streamed.
    """
    lines = encoder_lines(rows, metric)
    write_text("\n".join([*lines, "", NOTE.format_map(settings)]) + "\n", folder / "encoders.md")
    records = [row.numbers(metric) for row in rows]
    cells = [["" if value is None else value for value in record.values()] for record in records]
    write_csv(folder / "encoders.csv", list(records[0]), cells)
    content = {"metric": metric, "settings": dict(settings), "encoders": [asdict(row) for row in rows]}
    write_json(content, folder / "encoders.json")
    draw_encoders([(row.summary, row.cost) for row in rows], metric, folder / "encoders.png")
    return lines


def encoder_lines(rows: Sequence[EncoderRow], metric: str) -> list[str]:
    """The table as lines of Markdown."""
    first = rows[0].summary
    header = [
        "encoder",
        "n",
        f"{label(metric)}{', %' if is_score(metric) else ''}",
        *([f"minus {first.variant}"] if len(rows) > 1 else []),
        "parameters",
        "minutes",
        "MFLOPs per second of sound",
        "training, clips/s",
        "inference, clips/s",
        "delay, ms",
        "real-time factor",
        "field back / ahead, ms",
        "path",
    ]
    lines = [header, ["---"] * len(header)]
    for row in rows:
        cost = row.cost
        lines.append(
            [
                row.summary.variant,
                str(len(row.summary.seeds)),
                score_cell(metric, *row.summary.scores[metric]),
                *([difference_cell(row.summary, first, metric)] if len(rows) > 1 else []),
                f"{row.summary.parameters:,}",
                f"{row.summary.minutes:.1f}",
                f"{cost['flops_per_second'] / 1e6:.1f}",
                f"{cost['training_clips_per_second']:,.0f}",
                f"{cost['clips_per_second']:,.0f}",
                "—" if cost["delay_ms"] is None else f"{cost['delay_ms']:.0f}",
                "—" if cost["real_time_factor"] is None else f"{cost['real_time_factor']:.3f}",
                f"{row.back_ms:.0f} / {row.ahead_ms:.0f}",
                "no path" if cost["path_length"] is None else str(cost["path_length"]),
            ]
        )
    reasons = [f"{row.summary.variant}: not streamed, since {row.not_streamed}." for row in rows if row.not_streamed]
    return [*(f"| {' | '.join(cells)} |" for cells in lines), *([""] if reasons else []), *(f"- {r}" for r in reasons)]
