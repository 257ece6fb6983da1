"""One layer of full attention at the length of an image, compared with PyTorch's.

Shapes: B batch, T tokens, D model width.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks.measure import (
    Call,
    aligned,
    describe,
    interleaved,
    origin,
)
from vitspeech.attention import MultiHeadAttention
from vitspeech.files import write_json


@dataclass(frozen=True)
class Settings:
    """The settings of the benchmark.

    Args:
        tokens: Sequence lengths T.
        dtypes: `fp32`, `bf16` (autocast) or both.
        batch: Batch size.
        width: Model width D.
        heads: Attention heads.
        device: `cpu` or `cuda`.
        repeats: Runs of each layer after the warm-up.
    """

    tokens: Sequence[int] = (64, 256)
    dtypes: Sequence[str] = ("fp32", "bf16")
    batch: int = 128
    width: int = 192
    heads: int = 3
    device: str = "cpu"
    repeats: int = 7


class Fused(MultiHeadAttention):
    """Our layer, always with `scaled_dot_product_attention`."""

    def forward(self, x: Tensor) -> Tensor:
        attended = F.scaled_dot_product_attention(*self.project(x, None))
        return self.output(self.merge_heads(attended))


class Torch(nn.MultiheadAttention):
    """`torch.nn.MultiheadAttention` as self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x, x, x, need_weights=False)[0]


LAYERS = {"ours": MultiHeadAttention, "scaled_dot_product_attention": Fused, "nn.MultiheadAttention": Torch}


def training_pass(layer: nn.Module, x: Tensor, dtype: str) -> Call:
    """A forward and backward pass, with the gradients of the input and the weights."""
    x = x.clone().requires_grad_()
    upstream = torch.randn_like(x)

    def run() -> Sequence[Tensor]:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=dtype == "bf16"):
            result = layer(x)
        return torch.autograd.grad(result, [x, *layer.parameters()], upstream.to(result.dtype))

    return run


def benchmark(settings: Settings, path: Path) -> dict[str, Any]:
    """Time the layers. The report is written to `path` after each cell."""
    report = {
        "benchmark": "layer",
        "settings": asdict(settings),
        **origin(settings.device),
        "complete": False,
        "cells": [],
    }
    cells = [(tokens, dtype) for tokens in settings.tokens for dtype in settings.dtypes]
    with tqdm(cells, unit="cell", dynamic_ncols=True) as bar:
        for tokens, dtype in bar:
            x = torch.randn(settings.batch, tokens, settings.width, device=settings.device)
            layers = {name: make(settings.width, settings.heads).to(x) for name, make in LAYERS.items()}
            times, _ = interleaved(
                {name: training_pass(layer, x, dtype) for name, layer in layers.items()},
                settings.repeats,
                device=settings.device,
                note=lambda text, cell=f"T={tokens} {dtype}": describe(bar, f"{cell}: {text}"),
            )
            report["cells"].append({"tokens": tokens, "dtype": dtype, "times": times})
            write_json(report, path)
    report["complete"] = True
    write_json(report, path)
    return report


def table(report: dict[str, Any]) -> str:
    """The report as text: milliseconds and ratios to ours."""
    cells = report["cells"]
    head = ["forward+backward: ms (× ours)", *(f"T = {cell['tokens']}, {cell['dtype']}" for cell in cells)]
    rows = [
        [name, *(f"{cell['times'][name]['median_ms']:.2f} ({cell['times'][name]['ratio']:.2f})" for cell in cells)]
        for name in LAYERS
    ]
    return aligned([head, *rows])
