"""How well a classifier does on a labeled set: accuracy, its interval, the confusion matrix."""

from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule
from torch import Tensor, nn
from torchmetrics.functional.classification import multiclass_confusion_matrix
from tqdm import tqdm

from vitspeech.evaluation.report import Report
from vitspeech.metrics.intervals import wilson_interval
from vitspeech.plots.confusion import draw_confusion_matrix


def evaluate(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Report:
    """Accuracy on the test set, and a picture of the confusion matrix."""
    counts = confusion_matrix(network, data, progress=progress)
    found = metrics(counts, data)

    def write(folder: Path) -> Path:
        draw_confusion_matrix(counts, data.labels, folder / "confusion_matrix.png", items=data.items)
        return folder / "confusion_matrix.png"

    return Report(found, described(found), write)


@torch.inference_mode()
def confusion_matrix(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Tensor:
    """Run the test set through the network once, in fp32, and count (true label, given label).

    Args:
        network: In evaluation mode, on the device to use.
        data: A data module with `labels`, `test_dataloader` and `normalize`.
        progress: Show a bar.

    Shape:
        -> (classes, classes), rows are true labels
    """
    device = next(network.parameters()).device
    classes = len(data.labels)
    counts = torch.zeros(classes, classes, dtype=torch.long)
    for inputs, labels, _ in tqdm(data.test_dataloader(), desc="test", disable=not progress, leave=False):
        given = network(data.normalize(inputs.to(device))).argmax(-1).cpu()
        counts += multiclass_confusion_matrix(given, labels, classes)
    return counts


def metrics(counts: Tensor, data: LightningDataModule) -> dict[str, Any]:
    """What a card says of the test set, from its confusion matrix.

    `test_accuracy` with its interval and the number of items is over all labels. Where some labels are no words
    (`unknown`, `silence`), `word_accuracy` is over the clips of the words alone, whatever they were taken for.
    """
    found = shares("test", counts, data.items)
    words = [place for place, label in enumerate(data.labels) if label in getattr(data, "words", data.labels)]
    if len(words) < len(data.labels):
        found |= shares("word", counts, f"word_{data.items}", words)
    return found


def shares(name: str, counts: Tensor, items: str, rows: list[int] | None = None) -> dict[str, Any]:
    """The share of the rows' items that lie on the diagonal, its interval, and how many items they are."""
    rows = list(range(len(counts))) if rows is None else rows
    count = int(counts[rows].sum())
    share = int(counts.diagonal()[rows].sum()) / count
    low, high = wilson_interval(share, count)
    interval = "interval_95" if name == "test" else f"{name}_interval_95"
    return {f"{name}_accuracy": share, interval: [round(low, 4), round(high, 4)], items: count}


def described(found: dict[str, Any]) -> str:
    """The accuracies of `metrics` to be read, each with its interval and its number of items."""
    values = iter(found.items())
    triples = zip(values, values, values, strict=True)
    return "; ".join(
        f"{name} {share:.4f} ({low:.4f} to {high:.4f}, {count:,} {items.removeprefix('word_')})"
        for (name, share), (_, (low, high)), (items, count) in triples
    )


def accuracy(counts: Tensor) -> float:
    """The share on the diagonal of a confusion matrix."""
    return counts.trace().item() / counts.sum().item()
