"""The inputs on which models are compared: images, clips or utterances of a validation split, or images of a folder.

Shapes: B batch, N image side in pixels or samples of a clip.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.data.images.reading import read_picture, walk_pictures
from vitspeech.data.module import DataModule
from vitspeech.data.utterances.module import UtteranceData
from vitspeech.data.utterances.word_clips import word_span
from vitspeech.errors import InputError
from vitspeech.receptive.subjects import Subject

SEED = 20_261_121  # of the order of the inputs


@dataclass(frozen=True)
class Sample:
    """Unprocessed inputs in random order, so that the first ones are of all classes."""

    raw: Tensor  # uint8 images (B, 3, N, N) or int16 clips (B, N)
    labels: Tensor | None  # indices into `names` (B,); `None` without labels
    names: Sequence[str] | None  # the names of the labels; `None` without labels
    # for clips, the sample at the middle of the word (B,), or of the clip if it is cut from an utterance; `None`
    # for images
    middles: Tensor | None
    origin: str  # a description of the source of the inputs

    def first(self, count: int) -> "Sample":
        """The first `count` inputs."""
        parts = {name: getattr(self, name) for name in ("raw", "labels", "middles")}
        return replace(self, **{name: None if part is None else part[:count] for name, part in parts.items()})


def sample_for(subjects: Sequence[Subject], root: str | None, count: int) -> Sample:
    """Inputs for a comparison, from the validation split of the data set that the first card names.

    The test split is not used, so that a model changed after looking at its fields has not been tuned on it. Utterances
    that are composed of single words are replaced by these words; of others the loudest second is taken. Without a
    released model, the inputs are the images of the folder `root`.

    Args:
        subjects: The models; all take images, or all take audio.
        root: The folder of the data set, or a folder of images.
        count: Maximum number of inputs.
    """
    audio_names = [subject.name for subject in subjects if subject.takes_audio]
    image_names = [subject.name for subject in subjects if not subject.takes_audio]
    if audio_names and image_names:
        raise InputError(f"{audio_names[0]} takes audio and {image_names[0]} takes images; compare models of one kind")
    released = [subject for subject in subjects if subject.model is not None]
    if released:
        data = card_dataset(released[0].model, root)
        data = getattr(data, "source", data)  # the single words of which utterances are composed
        if isinstance(data, UtteranceData):
            return utterance_sample(data, round(released[0].size * data.sample_rate_hz), count)
        return validation_sample(data, count)
    if root is None:
        raise InputError("no model names its data set; give a folder of pictures with --data")
    return folder_sample(Path(root), int(subjects[0].size), count)


def validation_sample(data: DataModule, count: int) -> Sample:
    """Random items of the validation split; clips without a word are left out."""
    items = data.items_of("validation")
    labels = torch.as_tensor(items.labels)
    words = getattr(data, "words", data.labels)
    candidates = torch.tensor([label in words for label in data.labels])[labels].nonzero()[:, 0]
    order = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(SEED))
    indices = candidates[order[:count]]
    raw, labels, _ = items[indices, 0]
    middles = None
    if raw.ndim == 2:
        spans = [word_span(samples.numpy()) for samples in raw]
        middles = torch.tensor([(start + end) / 2 for start, end in spans])
    origin = f"{len(indices)} validation {data.items} of {type(data).__name__}"
    return Sample(raw, labels, list(data.labels), middles, origin)


def utterance_sample(data: UtteranceData, samples: int, count: int) -> Sample:
    """The loudest stretch of `samples` samples of random utterances of the validation split; no labels.

    An utterance that is shorter is repeated.
    """
    items = data.items_of("validation")
    if not len(items):
        raise InputError(f"{type(data).__name__}: no validation utterances")
    order = torch.randperm(len(items), generator=torch.Generator().manual_seed(SEED))[:count]
    clips = []
    for index in order:
        speech, _ = items[index[None], 0]
        clips.append(loudest(speech.waveforms[0, : speech.lengths[0]], samples))
    middles = torch.full((len(clips),), (samples - 1) / 2)
    origin = f"{len(clips)} validation {data.items} of {type(data).__name__}, the loudest part of each"
    return Sample(torch.stack(clips), None, None, middles, origin)


def loudest(waveform: Tensor, samples: int) -> Tensor:
    """The stretch of a waveform with the most energy: int16 (N,) -> (samples,)."""
    waveform = waveform.repeat(-(-samples // len(waveform)))
    energy = F.pad(waveform.double().square().cumsum(0), (1, 0))
    start = int((energy[samples:] - energy[:-samples]).argmax())
    return waveform[start : start + samples]


def folder_sample(folder: Path, side: int, count: int) -> Sample:
    """Images of a folder and its subfolders, cropped to the central square and scaled to `side` px; no labels."""
    files = list(walk_pictures([folder]))
    order = torch.randperm(len(files), generator=torch.Generator().manual_seed(SEED))[:count]
    raw = torch.stack([read_picture(files[index], side) for index in order])
    return Sample(raw, None, None, None, f"{len(raw)} pictures of {folder.name}")
