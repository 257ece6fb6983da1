"""Evaluation of classifiers: accuracy with its interval, and the confusion matrix.

Shapes: N items of the test set.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchmetrics.functional.classification import multiclass_confusion_matrix

from vitspeech.evaluation.confusion import write_confusion
from vitspeech.evaluation.report import (
    ItemTable,
    Report,
    accuracy_interval,
    describe_resampled,
    known_speakers,
    per_item,
    resampled,
)

COLUMNS = {"index": "d", "name": "", "label": "", "prediction": "", "probability": ".6f"}


def evaluate(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Report:
    """Accuracy on the test set, and a figure of the confusion matrix.

    If the test set has `speakers`, intervals resample them; the accuracy of its `parts` is reported besides (see
    `TensorItems`).
    """
    loader = data.test_dataloader()
    labels, predictions, probabilities = answers(network, data, loader, progress=progress)
    speakers = known_speakers(loader, len(labels))
    values = metrics(labels, predictions, data, speakers, getattr(loader.dataset, "parts", {}))
    counts = multiclass_confusion_matrix(predictions, labels, len(data.labels))

    def write(folder: Path) -> Path:
        return write_confusion(counts, data.labels, folder, items=data.items)

    def table() -> ItemTable:
        count = len(labels)
        names = ([data.labels[label] for label in side] for side in (labels, predictions))
        return ItemTable(COLUMNS, zip(range(count), item_names(data, count), *names, probabilities, strict=True))

    return Report(values, describe(values), write, table)


def item_names(data: LightningDataModule, count: int) -> Sequence[str | None]:
    """The name of each test item, in order; `None` for those without, such as clips of `silence`, which come last."""
    names = getattr(data, "item_names", dict)().get("test", [])
    certain = len(names) == count or (len(names) < count and not getattr(data, "broken", 0))  # none was left out
    return [*names, *[None] * (count - len(names))] if certain else [None] * count


@torch.inference_mode()
def answers(
    network: nn.Module, data: LightningDataModule, loader: DataLoader, *, progress: bool
) -> tuple[Tensor, Tensor, list[float]]:
    """The true label of each item that `loader` reads, the predicted one, and the probability of the latter."""
    device = next(network.parameters()).device

    def compute(batch: tuple[Tensor, Tensor, int]) -> list[tuple[int, int, float]]:
        inputs, labels, _ = batch
        logits = network(data.normalize(inputs.to(device)))
        predictions, probabilities = logits.argmax(-1), logits.float().softmax(-1).amax(-1)
        return list(zip(labels.tolist(), predictions.tolist(), probabilities.tolist(), strict=True))

    labels, predictions, probabilities = zip(*per_item(loader, compute, progress=progress), strict=True)
    return torch.tensor(labels), torch.tensor(predictions), list(probabilities)


def metrics(
    labels: Tensor,
    predictions: Tensor,
    data: LightningDataModule,
    speakers: Sequence[str] | None = None,
    parts: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """The metrics of a card.

    `test_accuracy`, its interval and the number of items count all labels. If some labels are not words (`unknown`,
    `silence`), `word_accuracy` counts only the clips of words; a word predicted as `unknown` is an error. The accuracy
    of each of `parts`, items by their indices, follows. What has no items has no accuracy.

    Shape:
        (N,), (N,), and the speaker of each item, or `None` if they are unknown
    """
    values = accuracies("test", labels == predictions, data.items, speakers)
    words = [index for index, label in enumerate(data.labels) if label in getattr(data, "words", data.labels)]
    if len(words) < len(data.labels):
        parts = {"word": torch.isin(labels, torch.tensor(words)).nonzero()[:, 0].tolist()} | dict(parts or {})
    for name, indices in ((name, indices) for name, indices in (parts or {}).items() if len(indices)):
        some = None if speakers is None else [speakers[index] for index in indices]
        values |= accuracies(name, (labels == predictions)[indices], f"{name}_{data.items}", some)
    return values | resampled(data.items, None if speakers is None else len(set(speakers)))


def accuracies(name: str, correct: Tensor, items: str, speakers: Sequence[str] | None) -> dict[str, Any]:
    """The accuracy over some items, its interval, and the number of these items; `correct` is boolean (N,)."""
    low, high = accuracy_interval(correct, torch.ones_like(correct), speakers)
    interval = "interval_95" if name == "test" else f"{name}_interval_95"
    fraction = int(correct.sum()) / len(correct)
    return {f"{name}_accuracy": fraction, interval: [round(low, 4), round(high, 4)], items: len(correct)}


def describe(values: dict[str, Any]) -> str:
    """The accuracies of `metrics` as text, each with its interval and its number of items."""
    pairs = iter([(name, value) for name, value in values.items() if name not in ("interval_over", "speakers")])
    triples = zip(pairs, pairs, pairs, strict=True)
    texts = [
        f"{name} {fraction:.4f} ({low:.4f} to {high:.4f}, {count:,} {items.rpartition('_')[2]})"
        for (name, fraction), (_, (low, high)), (items, count) in triples
    ]
    return "; ".join([*texts, describe_resampled(values)])
