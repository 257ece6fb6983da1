"""From files to labels with probabilities."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from tqdm import tqdm

from vitspeech.checkpoint import Model
from vitspeech.data.in_memory import normalised
from vitspeech.data.pictures import find_pictures, read_picture

Prediction = tuple[Path, list[tuple[str, float]]]


@torch.inference_mode()
def predict(
    model: Model, paths: Iterable[str | Path], *, top: int = 3, batch: int = 128, progress: bool = False
) -> Iterator[Prediction]:
    """Classify pictures of any size and mode: for each file its likeliest labels with their probabilities.

    Args:
        model: From `vitspeech.load`.
        paths: Files, and folders whose pictures are all taken.
        top: How many labels of each picture.
        batch: Pictures a forward pass.
        progress: Show a bar where there is more than one batch.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no picture.
        ValueError: If a file is empty, broken or no picture, or `top` is below 1.
    """
    if top < 1:
        raise ValueError(f"top={top} is below 1")
    files = find_pictures(paths)
    side, mean, deviation = (model.preprocessing[name] for name in ("image", "mean", "deviation"))
    device = next(model.network.parameters()).device
    with tqdm(total=len(files), desc="pictures", disable=not progress or len(files) <= batch, leave=False) as bar:
        for start in range(0, len(files), batch):
            some = files[start : start + batch]
            pictures = torch.stack([read_picture(file, side) for file in some]).to(device)
            probabilities = model.network(normalised(pictures, mean, deviation)).softmax(-1).cpu()
            values, places = probabilities.topk(min(top, len(model.labels)))
            for file, shares, labels in zip(some, values.tolist(), places.tolist(), strict=True):
                yield file, [(model.labels[label], share) for label, share in zip(labels, shares, strict=True)]
            bar.update(len(some))
