"""Evaluation of classifiers: accuracy with its interval, and the confusion matrix."""

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
    """Accuracy on the test set, and a figure of the confusion matrix."""
    counts = confusion_matrix(network, data, progress=progress)
    values = metrics(counts, data)

    def write(folder: Path) -> Path:
        draw_confusion_matrix(counts, data.labels, folder / "confusion_matrix.png", items=data.items)
        return folder / "confusion_matrix.png"

    return Report(values, describe(values), write)


@torch.inference_mode()
def confusion_matrix(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Tensor:
    """Run the test set through the network once, in fp32, and count pairs of true and predicted labels.

    Args:
        network: In evaluation mode, on the device to use.
        data: A data module with `labels`, `test_dataloader` and `normalize`.
        progress: Show a progress bar.

    Shape:
        -> (classes, classes), one row per true label
    """
    device = next(network.parameters()).device
    classes = len(data.labels)
    counts = torch.zeros(classes, classes, dtype=torch.long)
    for inputs, labels, _ in tqdm(data.test_dataloader(), desc="test", disable=not progress, leave=False):
        predictions = network(data.normalize(inputs.to(device))).argmax(-1).cpu()
        counts += multiclass_confusion_matrix(predictions, labels, classes)
    return counts


def metrics(counts: Tensor, data: LightningDataModule) -> dict[str, Any]:
    """The metrics of a card, from the confusion matrix of the test set.

    `test_accuracy`, its interval and the number of items count all labels. If some labels are not words (`unknown`,
    `silence`), `word_accuracy` counts only the clips of words; a word predicted as `unknown` is an error.
    """
    values = accuracies("test", counts, data.items)
    words = [index for index, label in enumerate(data.labels) if label in getattr(data, "words", data.labels)]
    if len(words) < len(data.labels):
        values |= accuracies("word", counts, f"word_{data.items}", words)
    return values


def accuracies(name: str, counts: Tensor, items: str, rows: list[int] | None = None) -> dict[str, Any]:
    """The accuracy over the items of some rows of the confusion matrix, its interval, and the number of these items."""
    rows = list(range(len(counts))) if rows is None else rows
    count = int(counts[rows].sum())
    fraction = int(counts.diagonal()[rows].sum()) / count
    low, high = wilson_interval(fraction, count)
    interval = "interval_95" if name == "test" else f"{name}_interval_95"
    return {f"{name}_accuracy": fraction, interval: [round(low, 4), round(high, 4)], items: count}


def describe(values: dict[str, Any]) -> str:
    """The accuracies of `metrics` as text, each with its interval and its number of items."""
    pairs = iter(values.items())
    triples = zip(pairs, pairs, pairs, strict=True)
    return "; ".join(
        f"{name} {fraction:.4f} ({low:.4f} to {high:.4f}, {count:,} {items.removeprefix('word_')})"
        for (name, fraction), (_, (low, high)), (items, count) in triples
    )


def accuracy(counts: Tensor) -> float:
    """The fraction of items on the diagonal of a confusion matrix."""
    return counts.trace().item() / counts.sum().item()
