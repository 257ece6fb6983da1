"""Classify images and recordings from files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from vitspeech.checkpoint.folder import Model
from vitspeech.data.audio.reading import find_audio, read_clips
from vitspeech.data.images.module import normalize
from vitspeech.data.images.reading import find_pictures, read_picture
from vitspeech.inference.transcribe import is_transcribing

Prediction = tuple[Path, list[tuple[str, float]]]


@torch.inference_mode()
def predict(
    model: Model, paths: Iterable[str | Path], *, top: int = 3, batch: int = 128, progress: bool = False
) -> Iterator[Prediction]:
    """Classify images of any size and mode, or recordings of any sample rate.

    Of a recording longer than the model's clips, the clip of most energy is classified.

    Args:
        model: From `vitspeech.load`; its preprocessing determines whether it takes images or audio.
        paths: Files and folders; a folder stands for all its images or recordings.
        top: Number of labels per file.
        batch: Files per forward pass.
        progress: Show a progress bar if there is more than one batch.

    Yields:
        Each file with its `top` most probable labels and their probabilities.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no file that the model takes.
        ValueError: If a file is empty, broken or of another kind, the model is not a classifier, or `top` is below 1.
    """
    if top < 1:
        raise ValueError(f"top={top} is below 1")
    if "seconds" not in model.preprocessing and "sample_rate_hz" in model.preprocessing:
        verb = "transcribe" if is_transcribing(model) else "stream"
        raise ValueError(
            f"{type(model.network).__name__} does not classify clips; use `vitspeech {verb}` (vitspeech.{verb})"
        )
    find, read = readers(model.preprocessing)
    files = find(paths)
    device = next(model.network.parameters()).device
    with tqdm(total=len(files), desc="files", disable=not progress or len(files) <= batch, leave=False) as bar:
        for start in range(0, len(files), batch):
            batch_files = files[start : start + batch]
            probabilities = model.network(read(batch_files).to(device)).softmax(-1).cpu()
            values, indices = (top_k.tolist() for top_k in probabilities.topk(min(top, len(model.labels))))
            for file, *columns in zip(batch_files, indices, values, strict=True):
                yield file, [(model.labels[index], value) for index, value in zip(*columns, strict=True)]
            bar.update(len(batch_files))


def readers(preprocessing: dict[str, Any]) -> tuple[Callable[..., list[Path]], Callable[[Sequence[Path]], Tensor]]:
    """A function that finds the files that a model takes, and one that reads them to the network's input."""
    if "sample_rate_hz" in preprocessing:
        return find_audio, partial(read_waveforms, **preprocessing)
    return find_pictures, partial(read_pictures, **preprocessing)


def read_pictures(files: Sequence[Path], image: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Read images to normalized pixels: (B, 3, N, N)."""
    return normalize(torch.stack([read_picture(file, image) for file in files]), mean, std)


def read_waveforms(files: Sequence[Path], sample_rate_hz: int, seconds: float) -> Tensor:
    """Read recordings to clips of one length, samples within ±1: (B, N)."""
    return read_clips(files, round(seconds * sample_rate_hz), sample_rate_hz=sample_rate_hz) / 32768
