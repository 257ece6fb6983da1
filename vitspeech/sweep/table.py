"""The files of a sweep: sweep.csv, table.md, sweep.json, sweep.png, progress.png.

They are made from the cards of the finished runs, so they can be made anew at any time, also of a half-finished sweep.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vitspeech.checkpoint.multi_seed import RUN_ONLY
from vitspeech.files import check_links, write_csv, write_json, write_text
from vitspeech.sweep.figure import draw, draw_lengths, draw_progress
from vitspeech.sweep.plan import Plan, shipped_name
from vitspeech.sweep.results import (
    Row,
    Summary,
    is_score,
    label,
    main_metric,
    number_text,
    read_record,
    read_rows,
    summarize,
)

FILES = ("table.md", "sweep.csv", "sweep.json", "sweep.png")  # of a sweep of any kind
NOTE = """\
Mean ± sample standard deviation over n seeds. Differences are paired by seed, with the 95 % interval of Student's t
over the n seeds that both variants have; those of accuracies and error rates are in percentage points. The sampling
error of the test set is not included."""


def tabulate(folder: str | Path, plan: Plan | None = None) -> list[str]:
    """Write sweep.csv, table.md, sweep.json, sweep.png and progress.png from the finished runs in a folder.

    Sequence tasks also have a lengths.png, see `draw_lengths`.

    Runs that were started by hand as `FOLDER/VARIANT/seed-N` count. Without a plan, `sweep.json` says which configs and
    values the variants have. Returns the lines of the table.
    """
    folder = Path(folder)
    check_links(folder, [*FILES, "progress.png", "lengths.png"])
    record = merged(read_record(folder), plan)
    varied = {name: variant["varied"] for name, variant in record["variants"].items()}
    rows = read_rows(folder, {name: variant["seeds"] for name, variant in record["variants"].items()})
    summaries = summarize(rows)
    lines = table_lines(summaries, main_metric(rows))
    unfinished = [f"{row.variant}, seed {row.seed} ({row.state})" for row in rows if row.result is None]
    if unfinished:
        lines += ["", f"Without a result, {len(unfinished)} of {len(rows)} runs: {'; '.join(unfinished)}."]
    if others := tested_on_others(rows):
        lines += ["", f"Tested on other items than the first run: {'; '.join(others)}. Do not compare them with it."]
    write_runs(folder / "sweep.csv", rows, varied)
    write_text("\n".join([*lines, "", NOTE]) + "\n", folder / "table.md")
    table = [asdict(summary) for summary in summaries]
    write_json({**record, "runs": [asdict(row) for row in rows], "table": table}, folder / "sweep.json")
    if summaries:
        draw(rows, summaries, varied, folder / "sweep.png")
        draw_progress(rows, folder / "progress.png")
        draw_lengths(folder, rows, folder / "lengths.png")
    return lines


def merged(record: dict[str, Any], plan: Plan | None) -> dict[str, Any]:
    """The variants that a folder's record and a plan know, those of the plan first.

    Folders of this machine are left out.
    """
    if plan is None:
        return record
    known, variants = dict(record["variants"]), {}
    for variant in plan.variants:
        seeds = sorted({*known.pop(variant.name, {}).get("seeds", []), *plan.seeds})
        content = {"config": shipped_name(variant.config), "varied": dict(variant.varied), "seeds": seeds}
        variants[variant.name] = content
    overrides = [option for option in plan.overrides if not RUN_ONLY.search(option[2:].partition("=")[0])]
    return {"variants": variants | known, "overrides": overrides}


def tested_on_others(rows: Sequence[Row]) -> list[str]:
    """The runs whose test items have another checksum than those of the first run, as text."""
    finished = [row for row in rows if row.result is not None and row.result.test_sum]
    return [f"{row.variant}, seed {row.seed}" for row in finished if row.result.test_sum != finished[0].result.test_sum]


def table_lines(summaries: Sequence[Summary], main: str) -> list[str]:
    """The table as lines of Markdown, one row for each variant."""
    if not summaries:
        return ["No run is finished yet."]
    names = list(dict.fromkeys(name for summary in summaries for name in summary.scores))
    titles = [f"{label(name)}{', %' if is_score(name) else ''}" for name in names]
    compared = [f"{label(main)} minus {summaries[0].variant}"] if len(summaries) > 1 else []
    lines = [["variant", "n", *titles, *compared, "parameters", "minutes"]]
    lines.append(["---"] * len(lines[0]))
    for summary in summaries:
        scores = [score_cell(name, *summary.scores[name]) if name in summary.scores else "–" for name in names]
        differences = [difference_cell(summary, summaries[0], main)] if compared else []
        lines.append(
            [
                summary.variant,
                str(len(summary.seeds)),
                *scores,
                *differences,
                f"{summary.parameters:,}",
                f"{summary.minutes:.1f}",
            ]
        )
    return [f"| {' | '.join(cells)} |" for cells in lines]


def score_cell(metric: str, average: float, deviation: float | None) -> str:
    """Mean ± standard deviation of a metric."""
    spread_text = "" if deviation is None else f" ± {number_text(metric, deviation)}"
    return number_text(metric, average) + spread_text


def difference_cell(summary: Summary, first: Summary, metric: str) -> str:
    """The difference from the first variant: `-0.52 [-1.10, +0.06], n = 3`."""
    difference = summary.difference
    if difference is None:
        return "" if summary is first else "no common seed"
    texts = [signed(metric, value) for value in (difference.mean, *(difference.interval_95 or ()))]
    interval = f" [{texts[1]}, {texts[2]}]" if difference.interval_95 else ""
    return f"{texts[0]}{interval}, n = {difference.n}"


def signed(metric: str, value: float) -> str:
    """A difference of a metric with its sign."""
    return f"{100 * value:+.2f}" if is_score(metric) else f"{value:+.4g}"


def write_runs(path: Path, rows: Sequence[Row], varied: dict[str, dict[str, str]]) -> None:
    """Write one row for each run: variant, varied values, seed, state, metrics, parameters, minutes and origin."""
    keys = list(dict.fromkeys(key for values in varied.values() for key in values))
    metrics = list(dict.fromkeys(name for row in rows if row.result is not None for name in row.result.metrics))
    columns = [*metrics, "parameters", "minutes", "commit", "hardware", "precision"]

    def cells(row: Row) -> list[Any]:
        values = [varied.get(row.variant, {}).get(key, "") for key in keys]
        found = {} if row.result is None else vars(row.result) | row.result.metrics
        return [row.variant, *values, row.seed, row.state, *(found.get(name, "") for name in columns)]

    write_csv(path, ["variant", *keys, "seed", "state", *columns], map(cells, rows))
