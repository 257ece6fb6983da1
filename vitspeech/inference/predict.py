"""Classify images and recordings, and compute their features."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.reading import Notes, fit_length, walk_audio
from vitspeech.data.images.reading import normalize, read_picture, to_picture, walk_pictures
from vitspeech.errors import check_number
from vitspeech.inference.batches import Input, OnError, Position, read_recording, run_in_batches, walk_inputs
from vitspeech.inference.stream import FULL_SCALE
from vitspeech.inference.transcript import check_model, check_outputs, wrong_model
from vitspeech.models import MaskedSpeechModel

BATCH = 128
PICTURE_AXES, SOUND_AXES = 3, 2  # of one array, at most


@dataclass(frozen=True, repr=False)
class Prediction:
    """The most probable labels of one image or recording.

    Args:
        probabilities: The probability of each of these labels, highest first.
        path: The file; `None` for what was given in memory.
    """

    probabilities: dict[str, float]
    path: Path | None = None

    @property
    def label(self) -> str:
        """The most probable label."""
        return next(iter(self.probabilities))

    @property
    def probability(self) -> float:
        """The probability of that label."""
        return self.probabilities[self.label]

    def __repr__(self) -> str:
        others = ", ".join(f"{label!r}: {value:.3f}" for label, value in self.probabilities.items())
        path = "" if self.path is None else f", path={str(self.path)!r}"
        return f"Prediction(label={self.label!r}, probability={self.probability:.3f}, probabilities={{{others}}}{path})"


def predict(
    model: Model,
    paths: Any,
    *,
    top: int = 3,
    sample_rate: int | None = None,
    batch: int = BATCH,
    on_error: OnError | None = None,
    progress: bool = False,
    after: Position | None = None,
) -> Iterator[tuple[Input, list[tuple[str, float]]]]:
    """Classify images or recordings as `Model.predict` does, and yield each with its labels.

    Of a recording longer than the model's clips, up to a minute, the clip of most energy is classified. The network
    runs on the device that it is on. Folders are walked, and files read in threads, while it runs: the first results of
    a large folder are there at once, and memory does not grow with the number of files.

    Args:
        model: From `vitspeech.load`.
        paths: As the inputs of `Model.predict`, where the other arguments and the errors are, too.
        on_error: Called with a file that can't be read and the error, in the order of the files; the other files are
            classified. `None` raises the error.
        progress: Show a progress bar if there is more than one batch.
        after: Leave out the files up to this position, which an interrupted run with the same `batch` has done. If the
            file there is another one, that is an `InputError`.

    Yields:
        Each file with its `top` most probable labels and their probabilities.
    """
    check_model(model)
    check_number("top", top, 1)
    if isinstance(model.network, MaskedSpeechModel) or not {"image", "seconds"} & model.preprocessing.keys():
        raise wrong_model(model, "does not classify clips")

    @torch.inference_mode()
    def classify(batch: Tensor) -> list[list[tuple[str, float]]]:
        logits = model.network(batch)
        check_outputs(logits.shape[-1], model.labels)
        best = logits.softmax(-1).topk(min(top, len(model.labels)))
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [[(model.labels[index], value) for index, value in zip(*row, strict=True)] for row in rows]

    options = {"batch": batch, "on_error": on_error, "progress": progress, "after": after}
    yield from run_clips(model, paths, classify, sample_rate=sample_rate, **options)


def run_clips(
    model: Model,
    inputs: Any,
    compute: Callable[[Tensor], Sequence[Any]],
    *,
    sample_rate: int | None = None,
    **options: Any,
) -> Iterator[tuple[Input, Any]]:
    """Yield each image or clip with its result. `compute` gets the network's input on the network's device.

    Arguments are as in `predict`; `options` are those of `run_in_batches`.
    """
    notes = Notes()
    walk, read = readers(model.preprocessing, notes, sample_rate)
    device = next(model.network.parameters()).device

    def run(files: list[Input], items: list[Tensor]) -> Sequence[Any]:
        notes.warn()
        return compute(to_input(items, model.preprocessing).to(device))

    yield from run_in_batches(walk(inputs), read, run, **options)


def readers(
    preprocessing: dict[str, Any], notes: Notes, sample_rate: int | None = None
) -> tuple[Callable[[Any], Iterator[Input]], Callable[[Input], Tensor]]:
    """A function that walks the inputs that a model takes, and one that reads one: int16 (N,) or uint8 (3, N, N)."""
    if "sample_rate_hz" in preprocessing:
        walk = partial(walk_inputs, axes=SOUND_AXES, walk=walk_audio)
        return walk, partial(read_fitted, notes=notes, sample_rate=sample_rate, **preprocessing)
    walk = partial(walk_inputs, axes=PICTURE_AXES, walk=walk_pictures)
    return walk, partial(read_pixels, side=preprocessing["image"])


def read_pixels(source: Input, side: int) -> Tensor:
    """Read a file, or take an image in memory: uint8 (3, side, side)."""
    return read_picture(source, side) if isinstance(source, Path) else to_picture(source, side)


def read_fitted(
    source: Input, sample_rate_hz: int, seconds: float, notes: Notes, sample_rate: int | None = None
) -> Tensor:
    """Read a recording, or take sound in memory, as a clip of that many seconds: int16 (N,)."""
    advice = "cut it, or use `vitspeech stream` with a model that can be streamed"
    samples = read_recording(source, sample_rate_hz, advice, notes, sample_rate)
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
