"""How well a network does on a labelled set, and how sure that is."""

import math

import torch
from lightning import LightningDataModule
from torch import Tensor, nn
from torchmetrics.functional.classification import multiclass_confusion_matrix
from tqdm import tqdm


@torch.inference_mode()
def confusion_matrix(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Tensor:
    """Run the test set through the network once, in fp32, and count (true label, given label).

    Args:
        network: In evaluation mode, on the device to use.
        data: A data module with `labels`, `test_dataloader` and `normalised`.
        progress: Show a bar.

    Shape:
        -> (classes, classes), rows are true labels
    """
    device = next(network.parameters()).device
    classes = len(data.labels)
    counts = torch.zeros(classes, classes, dtype=torch.long)
    for images, labels, _ in tqdm(data.test_dataloader(), desc="test", disable=not progress, leave=False):
        given = network(data.normalised(images.to(device))).argmax(-1).cpu()
        counts += multiclass_confusion_matrix(given, labels, classes)
    return counts


def accuracy(counts: Tensor) -> float:
    """The share on the diagonal of a confusion matrix."""
    return counts.trace().item() / counts.sum().item()


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share seen in `count` draws (Wilson 1927)."""
    z = 1.959964
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return centre - half, centre + half
