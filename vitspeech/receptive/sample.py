"""What models are looked at with: pictures or clips of a data set's validation split, or pictures of a folder.

Shapes: B batch, N image side in pixels or samples of a clip.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from vitspeech.checkpoint.release import card_data
from vitspeech.data.images.reading import find_pictures, read_picture
from vitspeech.data.module import InMemoryData
from vitspeech.data.utterances.word_clips import word_span
from vitspeech.receptive.subjects import Subject


@dataclass(frozen=True)
class Sample:
    """Inputs as a data set holds them, in an order in which the first ones are of all kinds.

    Args:
        raw: uint8 pictures (B, 3, N, N) or int16 clips (B, N).
        labels: Of each (B,), numbers of `names`; `None` without labels.
        names: The labels' names; `None` likewise.
        middles: Of each clip the sample in the middle of its word (B,); `None` of pictures.
        origin: Where they are from, in words.
    """

    raw: Tensor
    labels: Tensor | None
    names: Sequence[str] | None
    middles: Tensor | None
    origin: str

    def first(self, count: int) -> "Sample":
        """The first so many of them."""
        cut = {name: getattr(self, name) for name in ("raw", "labels", "middles")}
        return replace(self, **{name: None if part is None else part[:count] for name, part in cut.items()})


def sample_for(subjects: Sequence[Subject], root: str | None, count: int) -> Sample:
    """Inputs to compare these models on: the validation split of the data set that the first card names.

    The test split stays unseen: who changes a model after looking at its fields has not tuned it on the test set.
    Without a released model they are pictures of the folder `root`.

    Args:
        subjects: All of them see, or all of them hear.
        root: Where the data set is, or a folder of pictures.
        count: How many inputs at most.

    Raises:
        ValueError: If some see and others hear, the data set has no single words or pictures, or nothing says which
            data to take.
        FileNotFoundError: If the data are not there.
    """
    hearing = [subject.name for subject in subjects if subject.hears]
    seeing = [subject.name for subject in subjects if not subject.hears]
    if hearing and seeing:
        raise ValueError(f"{hearing[0]} hears and {seeing[0]} sees; compare what takes the same inputs")
    carded = [subject for subject in subjects if subject.model is not None]
    if carded:
        data = card_data(carded[0].model, root)
        data = getattr(data, "source", data)  # utterances are put together from single words
        if not isinstance(data, InMemoryData):
            raise ValueError(f"{carded[0].name}: its data ({type(data).__name__}) hold no single words or pictures")
        return of_validation(data, count)
    if root is None:
        raise ValueError("none of the models names its data; give a folder of pictures with --data")
    return of_folder(Path(root), int(subjects[0].size), count)


def of_validation(data: InMemoryData, count: int) -> Sample:
    """Items of the validation split, spread over it; of clips only those that hold a word."""
    items = data.read("validation")
    labels = torch.as_tensor(items.labels)
    words = getattr(data, "words", data.labels)
    wanted = torch.tensor([label in words for label in data.labels])[labels].nonzero()[:, 0]
    order = torch.randperm(len(wanted), generator=torch.Generator().manual_seed(20_261_121))
    chosen = wanted[order[:count]]
    raw, labels, _ = items[chosen, 0]
    middles = None
    if raw.ndim == 2:
        spans = [word_span(samples.numpy()) for samples in raw]
        middles = torch.tensor([(start + end) / 2 for start, end in spans])
    origin = f"{len(chosen)} validation {data.items} of {type(data).__name__}"
    return Sample(raw, labels, list(data.labels), middles, origin)


def of_folder(folder: Path, side: int, count: int) -> Sample:
    """Pictures of a folder and of those in it, their middle squares scaled to `side` px; without labels."""
    files = find_pictures([folder])
    order = torch.randperm(len(files), generator=torch.Generator().manual_seed(20_261_121))[:count]
    raw = torch.stack([read_picture(files[place], side) for place in order])
    return Sample(raw, None, None, None, f"{len(raw)} pictures of {folder.name}")
