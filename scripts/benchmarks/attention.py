"""Truncated attention and comparable layers: time and peak memory by sequence length.

Shapes: T tokens.
"""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks import chart
from benchmarks.measure import (
    NotRunError,
    aligned,
    describe,
    interleaved,
    origin,
)
from benchmarks.memory import in_fresh_process
from benchmarks.variants import PASSES, PRODUCTS, VARIANTS, Case, prepare, projected
from vitspeech.errors import InputError
from vitspeech.files import write_json


@dataclass(frozen=True)
class Settings:
    """The settings of the benchmark.

    Args:
        tokens: Sequence lengths T.
        dtypes: `fp32`, `bf16` or both.
        variants: Names from `VARIANTS`; `ours` is always included.
        batch: Batch size.
        heads: Attention heads.
        width: Width of a head.
        left: Past context in tokens.
        right: Look-ahead in tokens.
        device: `cpu` or `cuda`.
        repeats: Runs of each variant after the warm-up.
        patience: Seconds; a variant whose warm-up takes longer runs three times.
        dense_up_to: The largest T for the dense mask.
        memory: Whether to measure peak memory.
    """

    tokens: Sequence[int] = (256, 1024, 4096, 16384)
    dtypes: Sequence[str] = ("fp32", "bf16")
    variants: Sequence[str] = VARIANTS
    batch: int = 4
    heads: int = 4
    width: int = 64
    left: int = 32
    right: int = 32
    device: str = "cpu"
    repeats: int = 7
    patience: float = 60.0
    dense_up_to: int = 4096
    memory: bool = True

    def case(self, tokens: int, dtype: str) -> Case:
        """The problem size of one cell."""
        return Case(tokens, dtype, self.batch, self.heads, self.width, self.left, self.right, self.device)

    def names(self) -> list[str]:
        """The variants in the order of the table, ours first."""
        if unknown := {*self.variants} - {*VARIANTS}:
            raise InputError(f"{', '.join(unknown)}: unknown variant; known: {', '.join(VARIANTS)}")
        return [name for name in VARIANTS if name == "ours" or name in self.variants]

    def too_dense(self, name: str, tokens: int) -> str | None:
        """The reason to leave out the dense mask at this length, or `None`."""
        if name == "dense mask" and tokens > self.dense_up_to:
            return f"T={tokens:,} is above --dense-up-to {self.dense_up_to:,}"
        return None


def benchmark(settings: Settings, path: Path) -> dict[str, Any]:
    """Measure all cells. The report is written to `path` after each cell, and a chart next to it at the end.

    A cell is a length, a dtype and a pass. Memory is measured afterwards, in a new process for each length, dtype and
    variant.
    """
    report = {"benchmark": "attention", "settings": asdict(settings), **origin(settings.device), "complete": False}
    report |= {"cells": [], "memory": []}
    sizes = [settings.case(tokens, dtype) for dtype in settings.dtypes for tokens in sorted(set(settings.tokens))]
    names = [name for name in settings.names() if name != PRODUCTS]
    processes = [(case, name) for case in sizes for name in names] if settings.memory else []
    with tqdm(total=len(sizes) * len(PASSES) + len(processes), unit="cell", dynamic_ncols=True) as bar:
        for case in sizes:
            for which in PASSES:
                report["cells"].append(timed(settings, case, which, bar))
                write_json(report, path)
                bar.update()
        refusals = {(cell["tokens"], cell["dtype"]): cell["not_run"] for cell in report["cells"]}
        for case, name in processes:
            describe(bar, f"memory, T={case.tokens:,} {case.dtype}: {name}")
            refusal = refusals[case.tokens, case.dtype].get(name)
            usage = {"not_run": refusal} if refusal else in_fresh_process(name, case)
            report["memory"].append({"tokens": case.tokens, "dtype": case.dtype, "variant": name, **usage})
            write_json(report, path)
            bar.update()
    report["complete"] = True
    write_json(report, path)
    chart.draw(report, path.with_suffix(".png"))
    return report


def timed(settings: Settings, case: Case, which: str, bar: tqdm) -> dict[str, Any]:
    """Time one cell: all variants in turn on the same inputs."""
    if torch.device(case.device).type == "cuda":
        torch.compiler.reset()  # compile a kernel for this length, during the warm-up
    shared = projected(case)
    calls, not_run = {}, {}
    for name in settings.names():
        refusal = settings.too_dense(name, case.tokens)
        try:
            if refusal:
                raise NotRunError(refusal)
            variant = prepare(name, case, shared)
        except NotRunError as error:
            not_run[name] = str(error)
            continue
        calls[name] = functools.partial(PASSES[which], variant)
    cell = f"T={case.tokens:,} {case.dtype} {which}"
    times, failed = interleaved(
        calls,
        settings.repeats,
        device=case.device,
        patience=settings.patience,
        note=lambda text: describe(bar, f"{cell}: {text}"),
    )
    return {"tokens": case.tokens, "dtype": case.dtype, "pass": which, "times": times, "not_run": not_run | failed}


def table(report: dict[str, Any]) -> str:
    """The report as text: milliseconds and ratios to ours, memory, and the reasons of variants that did not run."""
    lengths = sorted({cell["tokens"] for cell in report["cells"]})
    first = report["cells"][0]
    names = [name for name in VARIANTS if name in first["times"] or name in first["not_run"]]
    texts, reasons = {}, {}
    for cell in report["cells"]:
        title = f"{cell['pass']}, {cell['dtype']}: ms (× ours)"
        for name, time in cell["times"].items():
            texts[title, name, cell["tokens"]] = f"{time['median_ms']:,.2f} ({time['ratio']:.2f})"
        for name, why in cell["not_run"].items():
            texts[title, name, cell["tokens"]] = "–"
            reasons.setdefault(f"{name}: {why}")
    for cell in report["memory"]:
        title = f"forward+backward, {cell['dtype']}: peak MiB beyond the inputs"
        extra = cell.get("extra_mib")
        texts[title, cell["variant"], cell["tokens"]] = "–" if extra is None else f"{extra:,.1f}"
        if extra is None:
            reasons.setdefault(f"{cell['variant']}: {cell['not_run']}")
    parts = []
    for title in dict.fromkeys(title for title, *_ in texts):
        head = [title, *(f"T = {tokens:,}" for tokens in lengths)]
        measured = [name for name in names if (title, name, lengths[0]) in texts]  # memory is not that of bare products
        rows = ([name, *(texts[title, name, tokens] for tokens in lengths)] for name in measured)
        parts.append(aligned([head, *rows]))
    if reasons:
        parts.append("not run:\n" + "\n".join(f"  {line}" for line in reasons))
    return "\n\n".join(parts)
