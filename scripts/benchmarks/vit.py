"""A training step of our ViT and of other packages' ViTs of the same shape.

Shapes: B batch, N image side, D model width.
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from timm.layers import set_fused_attn, use_fused_attn
from timm.models import VisionTransformer as TimmViT
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchvision.models import VisionTransformer as TorchvisionViT
from tqdm import tqdm

from benchmarks.measure import (
    Call,
    NotRunError,
    aligned,
    describe,
    interleaved,
    not_installed,
    origin,
)
from vitspeech.attention import EncoderConfig, LearnedPositions, MeanPooling
from vitspeech.files import write_json
from vitspeech.frontends import LinearPatches
from vitspeech.models import ViT


@dataclass(frozen=True)
class Shape:
    """The shape of all networks; the MLP is four times as wide as the model.

    Args:
        image: Image side N in pixels.
        patch: Patch side in pixels.
        width: Model width D.
        depth: Number of blocks.
        heads: Attention heads.
        classes: Number of labels.
    """

    image: int = 32
    patch: int = 4
    width: int = 192
    depth: int = 6
    heads: int = 3
    classes: int = 10


@dataclass(frozen=True)
class Settings:
    """The settings of the benchmark.

    Args:
        batch: Batch size.
        repeats: Steps of each network after the warm-up.
        device: `cpu` or `cuda`.
        dtypes: `fp32`, and `bf16` for autocast.
        compiled: Whether to measure each network compiled, too.
        shape: The shape of the networks.
    """

    batch: int = 128
    repeats: int = 7
    device: str = "cpu"
    dtypes: Sequence[str] = ("fp32", "bf16")
    compiled: bool = False
    shape: Shape = Shape()


def torch_encoder(shape: Shape) -> nn.Module:
    """`torch.nn.TransformerEncoder` with our patches, positions and mean pooling."""
    patches = LinearPatches(shape.image, shape.patch, shape.width)
    layer = nn.TransformerEncoderLayer(
        shape.width, shape.heads, 4 * shape.width, 0.0, "gelu", batch_first=True, norm_first=True
    )
    return nn.Sequential(
        patches,
        LearnedPositions(patches.grid**2, shape.width),
        nn.TransformerEncoder(layer, shape.depth, nn.LayerNorm(shape.width), enable_nested_tensor=False),
        MeanPooling(),
        nn.Linear(shape.width, shape.classes),
    )


def ours(shape: Shape) -> nn.Module:
    """This package's ViT with linear patches and mean pooling."""
    encoder = EncoderConfig(depth=shape.depth, heads=shape.heads)
    return ViT(shape.classes, shape.image, shape.patch, width=shape.width, encoder=encoder)


def timm(shape: Shape) -> nn.Module:
    """timm's `VisionTransformer`, with mean pooling."""
    return TimmViT(
        img_size=shape.image,
        patch_size=shape.patch,
        embed_dim=shape.width,
        depth=shape.depth,
        num_heads=shape.heads,
        num_classes=shape.classes,
        class_token=False,
        global_pool="avg",
    )


def timm_unfused(shape: Shape) -> nn.Module:
    """timm's without fused attention, which is slow on CPU at this length."""
    before = use_fused_attn(), use_fused_attn(experimental=True)
    set_fused_attn(False)
    try:
        return timm(shape)
    finally:
        set_fused_attn(*before)


def torchvision(shape: Shape) -> nn.Module:
    """torchvision's `VisionTransformer`, which always has a class token: one token more."""
    return TorchvisionViT(
        image_size=shape.image,
        patch_size=shape.patch,
        num_layers=shape.depth,
        num_heads=shape.heads,
        hidden_dim=shape.width,
        mlp_dim=4 * shape.width,
        num_classes=shape.classes,
    )


def vit_pytorch(shape: Shape) -> nn.Module:
    """The `SimpleViT` of `vit-pytorch`."""
    if importlib.util.find_spec("vit_pytorch") is None:
        raise not_installed()
    from vit_pytorch import SimpleViT

    return SimpleViT(
        image_size=shape.image,
        patch_size=shape.patch,
        num_classes=shape.classes,
        dim=shape.width,
        depth=shape.depth,
        heads=shape.heads,
        mlp_dim=4 * shape.width,
        dim_head=shape.width // shape.heads,
    )


NETWORKS = {
    "ours": ours,
    "timm": timm,
    "timm, fused attention off": timm_unfused,
    "torchvision": torchvision,
    "vit-pytorch": vit_pytorch,
    "nn.TransformerEncoder": torch_encoder,
}


def training_step(network: nn.Module, images: Tensor, labels: Tensor, dtype: str, compiled: bool = False) -> Call:
    """A training step: forward, cross-entropy, backward and AdamW; bf16 is autocast."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=0.05)
    forward = torch.compile(network) if compiled else network

    def step() -> Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=dtype == "bf16"):
            loss = cross_entropy(forward(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def benchmark(settings: Settings, path: Path) -> dict[str, Any]:
    """Time the steps. The report is written to `path` after each dtype."""
    report = {"benchmark": "vit", "settings": asdict(settings), **origin(settings.device), "complete": False}
    report |= {"parameters": {}, "cells": []}
    images = torch.randn(settings.batch, 3, settings.shape.image, settings.shape.image, device=settings.device)
    labels = torch.randint(settings.shape.classes, (settings.batch,), device=settings.device)
    with tqdm(settings.dtypes, unit="cell", dynamic_ncols=True) as bar:
        for dtype in bar:
            calls, not_run = {}, {}
            for name, make in NETWORKS.items():
                try:
                    network = make(settings.shape).to(settings.device)
                except NotRunError as error:
                    not_run[name] = str(error)
                    continue
                report["parameters"][name] = sum(parameter.numel() for parameter in network.parameters())
                calls[name] = training_step(network, images, labels, dtype)
                if settings.compiled:
                    calls[f"{name}, compiled"] = training_step(network, images, labels, dtype, compiled=True)
            times, failed = interleaved(
                calls,
                settings.repeats,
                device=settings.device,
                note=lambda text, dtype=dtype: describe(bar, f"{dtype}: {text}"),
            )
            for row in times.values():
                row["images_per_second"] = 1000 * settings.batch / row["median_ms"]
            report["cells"].append({"dtype": dtype, "times": times, "not_run": not_run | failed})
            write_json(report, path)
    report["complete"] = True
    write_json(report, path)
    return report


def table(report: dict[str, Any]) -> str:
    """The report as text: images/s and their ratio to ours, and the reasons of networks that did not run."""
    cells, reasons = report["cells"], {}
    rows = [["training step", "parameters", *(f"{cell['dtype']}: images/s (ours / it)" for cell in cells)]]
    for name in dict.fromkeys(name for cell in cells for name in (*cell["times"], *cell["not_run"])):
        parameters = report["parameters"].get(name.removesuffix(", compiled"))
        row = [name, f"{parameters:,}" if parameters else "–"]
        for cell in cells:
            time = cell["times"].get(name)
            row.append(f"{time['images_per_second']:,.1f} ({time['ratio']:.2f})" if time else "–")
            if not time:
                reasons.setdefault(f"{name}: {cell['not_run'][name]}")
        rows.append(row)
    lines = [aligned(rows)]
    if reasons:
        lines.append("not run:\n" + "\n".join(f"  {line}" for line in reasons))
    return "\n\n".join(lines)
