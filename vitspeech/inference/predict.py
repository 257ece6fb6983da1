"""Classify images and recordings from files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.reading import IN_PARTS, Notes, TooLongError, fit_length, read_clip, walk_audio
from vitspeech.data.images.reading import normalize, read_picture, walk_pictures
from vitspeech.errors import InputError, check_number
from vitspeech.inference.batches import OnError, Position, run_in_batches
from vitspeech.inference.stream import FULL_SCALE
from vitspeech.inference.transcript import wrong_model
from vitspeech.models import MaskedSpeechModel

BATCH = 128
Prediction = tuple[Path, list[tuple[str, float]]]


@torch.inference_mode()
def predict(
    model: Model,
    paths: Iterable[str | Path],
    *,
    top: int = 3,
    batch: int = BATCH,
    on_error: OnError | None = None,
    progress: bool = False,
    after: Position | None = None,
) -> Iterator[Prediction]:
    """Classify images of any size and mode, or recordings of any sample rate.

    Of a recording longer than the model's clips, up to a minute, the clip of most energy is classified. The network
    runs on the device that it is on. Folders are walked, and files read in threads, while it runs: the first results of
    a large folder are there at once, and memory does not grow with the number of files.

    Args:
        model: From `vitspeech.load`; its preprocessing determines whether it takes images or audio.
        paths: Files and folders; a folder stands for all its images or recordings, sorted by path.
        top: Number of labels per file.
        batch: Files per forward pass.
        on_error: Called with a file that can't be read and the error, in the order of the files; the other files are
            classified. `None` raises the error.
        progress: Show a progress bar if there is more than one batch.
        after: Leave out the files up to this position, which an interrupted run with the same `batch` has done.

    Yields:
        Each file with its `top` most probable labels and their probabilities.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no file that the model takes.
        InputError: If a file is empty, broken or of another kind and there is no `on_error`, the model is not a
            classifier, `top` is below 1, or the file at the position `after` is another one.
    """
    check_number("top", top, 1)
    if isinstance(model.network, MaskedSpeechModel) or not {"image", "seconds"} & model.preprocessing.keys():
        raise wrong_model(model, "does not classify clips")
    notes = Notes()
    walk, read = readers(model.preprocessing, notes)
    device = next(model.network.parameters()).device

    def classify(files: list[Path], inputs: list[Tensor]) -> list[list[tuple[str, float]]]:
        notes.warn()
        probabilities = model.network(to_input(inputs, model.preprocessing).to(device)).softmax(-1)
        best = probabilities.topk(min(top, len(model.labels)))
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [[(model.labels[index], value) for index, value in zip(*row, strict=True)] for row in rows]

    options = {"batch": batch, "on_error": on_error, "progress": progress, "after": after}
    yield from run_in_batches(walk(paths), read, classify, **options)


def readers(
    preprocessing: dict[str, Any], notes: Notes
) -> tuple[Callable[..., Iterator[Path]], Callable[[Path], Tensor]]:
    """A function that walks the files that a model takes, and one that reads a file: int16 (N,) or uint8 (3, N, N)."""
    if "sample_rate_hz" in preprocessing:
        return walk_audio, partial(read_fitted, notes=notes, **preprocessing)
    return walk_pictures, partial(read_picture, side=preprocessing["image"])


def read_fitted(path: Path, sample_rate_hz: int, seconds: float, notes: Notes) -> Tensor:
    """Read a recording as a clip of that many seconds: int16 (N,)."""
    try:
        samples = read_clip(path, sample_rate_hz, notes)
    except TooLongError as error:
        advice = "cut it, or use `vitspeech stream` with a model that can be streamed"
        raise InputError(str(error).removesuffix(IN_PARTS) + advice) from None
    return fit_length(samples, round(seconds * sample_rate_hz))


def read_input(file: Path, preprocessing: dict[str, Any]) -> Tensor:
    """Read one file to the network's input: (1, N) or (1, 3, N, N)."""
    _, read = readers(preprocessing, Notes())
    return to_input([read(file)], preprocessing)


def to_input(items: Sequence[Tensor], preprocessing: dict[str, Any]) -> Tensor:
    """The network's input from what `readers` read: samples within ±1 (B, N), or normalized pixels (B, 3, N, N)."""
    stacked = torch.stack(list(items))
    if "sample_rate_hz" in preprocessing:
        return stacked / FULL_SCALE
    return normalize(stacked, preprocessing["mean"], preprocessing["std"])
