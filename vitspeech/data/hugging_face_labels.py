"""Images and clips of data sets of Hugging Face: rows with one label each.

Shapes: B batch.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import read_audio, read_fitted
from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.hub import imported
from vitspeech.data.hugging_face import HuggingFaceData, Rows
from vitspeech.data.images.folder import ImageFolder
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.reading import read_picture
from vitspeech.data.module import STREAM
from vitspeech.data.rows import Content
from vitspeech.errors import InputError, some_names

NOISE = "noise"  # a split


class HuggingFaceLabels(HuggingFaceData):
    """The base class of sets with one label for each item.

    Args:
        path: As in `HuggingFaceData`.
        label_column: The column of labels: `ClassLabel`, texts or integers. `None` is the only `ClassLabel`, else
            `label`.
        labels: The labels to learn, in this order; rows of others are left out. `None` is all.
        **options: Those of `HuggingFaceData`.

    Attributes:
        item_bytes: Size of an input in memory.
    """

    item_bytes: int

    def __init__(
        self, path: str, *, label_column: str | None = None, labels: Sequence[str] | None = None, **options: Any
    ) -> None:
        super().__init__(path, **options)
        self.given_labels, self.given_label_column = labels, label_column

    @cached_property
    def label_column(self) -> str:
        """The column of labels."""
        found = self.columns_of("ClassLabel") or [name for name in self.features if name == "label"]
        return self.one_column("label_column", self.given_label_column, "ClassLabel", found)

    @cached_property
    def known_labels(self) -> dict[Any, str]:
        """The label of each value of the column in training."""
        feature = self.features[self.label_column]
        if isinstance(feature, imported().ClassLabel):
            return dict(enumerate(feature.names))
        if self.storage == STREAM:
            raise InputError(f"{self.path}: storage=stream needs labels of the feature ClassLabel")
        kind = str(getattr(feature, "dtype", feature))
        known = "string" in kind or "int" in kind
        values = self.found["train"].column(self.label_column).unique().to_pylist() if known else [None]
        if None in values:
            what = f"{self.path}: column {self.label_column!r} of {kind} has no labels"
            raise InputError(f"{what}; these are ClassLabel, texts or integers, in each row")
        return {value: str(value) for value in sorted(values)}

    @cached_property
    def labels(self) -> list[str]:
        """The labels; not read in the constructor, whose errors jsonargparse would wrap."""
        known = list(self.known_labels.values())
        if missing := sorted({*(self.given_labels or ())} - {*known}):
            raise InputError(f"{self.path}: labels: {some_names(missing)} not in the set; known: {', '.join(known)}")
        return known if self.given_labels is None else list(self.given_labels)

    @cached_property
    def class_of_value(self) -> dict[Any, int]:
        """The index of the label of each value of the column; -1 for those that are not to be learned."""
        return {value: self.label_indices.get(label, -1) for value, label in self.known_labels.items()}

    def usable(self, rows: Rows) -> Rows:
        values = rows.column(self.label_column).unique().to_pylist()
        if foreign := [value for value in values if value not in self.class_of_value]:
            known = ", ".join(map(str, self.known_labels.values()))
            raise InputError(f"{rows.name}: training does not have the label {foreign[0]!r}; known: {known}")
        if all(self.class_of_value[value] >= 0 for value in values):
            return rows
        return rows.chosen((self.classes(rows) >= 0).nonzero()[0])

    def classes(self, rows: Rows) -> numpy.ndarray:
        """The index of each row's label; -1 for those that are not to be learned."""
        column, of_value = rows.column(self.label_column), self.class_of_value
        if of_value == {index: index for index in range(len(self.labels))}:
            return numpy.require(column.to_numpy(), numpy.int64, ["W"])  # a copy only if it is a file's memory
        places = column.combine_chunks().dictionary_encode()
        return numpy.array([of_value[value] for value in places.dictionary.to_pylist()])[places.indices.to_numpy()]

    def texts(self, rows: Rows) -> list[str]:
        return [self.labels[index] for index in self.classes(rows)]

    def read(self, split: str) -> Dataset:
        if self.storage == STREAM and split == "train":
            return self.streamed(select=self.labeled, decode=self.read_labeled, batch_of=stacked)
        inputs = self.inputs(split, self.read_file, self.item_bytes)
        return TensorItems(inputs, torch.from_numpy(self.classes(self.rows[split])), self.item_speakers(split))

    def read_file(self, file: Content | Path) -> Tensor:
        """Read the input of an item."""
        raise NotImplementedError

    def item_speakers(self, split: str) -> list[str] | None:
        """The speaker of each item, so that intervals of accuracies resample them; `None` if they are not needed."""
        return None

    def labeled(self, row: dict[str, Any]) -> tuple[Any, int] | None:
        """The file in a row of a stream and the index of its label; `None` if it is not to be learned."""
        index = self.class_of_value.get(row[self.label_column], -1)
        return None if index < 0 else (self.content(row), index)

    def read_labeled(self, item: tuple[Any, int]) -> tuple[Tensor, int]:
        """The input of a row of a stream, and its label."""
        return self.read_file(item[0]), item[1]


def stacked(items: Sequence[tuple[Tensor, int]], seed: int) -> tuple[Tensor, Tensor, int]:
    """A batch of inputs and labels."""
    return torch.stack([value for value, _ in items]), torch.tensor([label for _, label in items]), seed


class HuggingFaceImages(HuggingFaceLabels, ImageData):
    """Images with one label each, from the Hugging Face Hub, Parquet, a folder, or what `vitspeech pack` wrote.

    Args:
        path: A name on the hub, or a folder or file; see `HuggingFaceData`.
        image: Side in pixels to which the center square of each image is scaled.
        mean: Mean of each channel, with pixels scaled to 0..1.
        std: Standard deviation of each channel, likewise.
        **options: Those of `HuggingFaceLabels` and of `ImageData`.
    """

    feature = "Image"

    def __init__(
        self,
        path: str,
        *,
        image: int = 64,
        mean: Sequence[float] = ImageFolder.mean,
        std: Sequence[float] = ImageFolder.std,
        **options: Any,
    ) -> None:
        super().__init__(path, **options)
        self.image, self.item_bytes = image, 3 * image**2
        self.mean, self.std = mean, std

    def read_file(self, file: Content | Path) -> Tensor:
        return read_picture(file, self.image)


class HuggingFaceClips(HuggingFaceLabels, WaveformData):
    """Recordings with one label each, from the Hugging Face Hub, Parquet, a folder, or what `vitspeech pack` wrote.

    They have any sample rate and are read from their bytes, without FFmpeg. Recordings shorter than `seconds` are
    padded; of longer ones the stretch of most energy is kept. If the set has a split `noise`, its recordings are mixed
    in by `WaveformAugment`; else it is pink noise.

    Args:
        path: A name on the hub, or a folder or file; see `HuggingFaceData`.
        makes_silence: Whether clips labeled `silence` are new noise in every training batch, as in `SpeechCommands`.
        **options: Those of `HuggingFaceLabels` and of `WaveformData`.
    """

    feature = "Audio"

    def __init__(self, path: str, *, makes_silence: bool = False, **options: Any) -> None:
        super().__init__(path, **options)
        self.makes_silence, self.item_bytes = makes_silence, 2 * self.samples

    def read_file(self, file: Content | Path) -> Tensor:
        return read_fitted(file, self.samples)

    def item_speakers(self, split: str) -> list[str] | None:
        return None if split == "train" else self.speakers_of(self.rows[split])

    def prepare_data(self) -> None:
        super().prepare_data()
        if NOISE in self.sets:
            files = Rows(self.at_hand(self.sets[NOISE]), NOISE).files(self.column)
            self.noise = torch.cat([*map(read_audio, files)])
