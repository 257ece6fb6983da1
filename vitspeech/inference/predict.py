"""From files to labels with probabilities."""

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
    """Classify pictures of any size and mode, or recordings of any rate: for each file its likeliest labels.

    Of a recording longer than the model's clips, the stretch of most energy is taken.

    Args:
        model: From `vitspeech.load`; its preprocessing says whether it sees or hears.
        paths: Files, and folders whose pictures or recordings are all taken.
        top: How many labels of each file.
        batch: Files a forward pass.
        progress: Show a bar where there is more than one batch.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no file of the model's kind.
        ValueError: If a file is empty, broken or of another kind, the model gives transcripts, or `top` is below 1.
    """
    if top < 1:
        raise ValueError(f"top={top} is below 1")
    if "seconds" not in model.preprocessing and "sample_rate_hz" in model.preprocessing:
        transcribing = is_transcribing(model.network)
        raise ValueError(
            f"{type(model.network).__name__} takes utterances of any length, not clips with one label each; use "
            + ("vitspeech.transcribe (scripts/transcribe.py)" if transcribing else "vitspeech.stream")
        )
    find, read = readers(model.preprocessing)
    files = find(paths)
    device = next(model.network.parameters()).device
    with tqdm(total=len(files), desc="files", disable=not progress or len(files) <= batch, leave=False) as bar:
        for start in range(0, len(files), batch):
            some = files[start : start + batch]
            probabilities = model.network(read(some).to(device)).softmax(-1).cpu()
            values, places = probabilities.topk(min(top, len(model.labels)))
            for file, shares, labels in zip(some, values.tolist(), places.tolist(), strict=True):
                yield file, [(model.labels[label], share) for label, share in zip(labels, shares, strict=True)]
            bar.update(len(some))


def readers(preprocessing: dict[str, Any]) -> tuple[Callable[..., list[Path]], Callable[[Sequence[Path]], Tensor]]:
    """How files of the model's kind are found, and read to what its network takes."""
    if "sample_rate_hz" in preprocessing:
        return find_audio, partial(read_waveforms, **preprocessing)
    return find_pictures, partial(read_pictures, **preprocessing)


def read_pictures(files: Sequence[Path], image: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalized pixels: (B, 3, N, N)."""
    return normalize(torch.stack([read_picture(file, image) for file in files]), mean, std)


def read_waveforms(files: Sequence[Path], sample_rate_hz: int, seconds: float) -> Tensor:
    """Clips of one length, samples within ±1: (B, N)."""
    return read_clips(files, round(seconds * sample_rate_hz), sample_rate_hz=sample_rate_hz) / 32768
