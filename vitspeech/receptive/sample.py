"""The inputs on which models are compared: items of a validation split, or the images or recordings of a folder.

Shapes: B batch, N image side in pixels or samples of a clip.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.data.audio.reading import ENDINGS as AUDIO_ENDINGS
from vitspeech.data.audio.reading import read_audio
from vitspeech.data.images.reading import ENDINGS as PICTURE_ENDINGS
from vitspeech.data.images.reading import read_picture
from vitspeech.data.module import DataModule
from vitspeech.data.utterances.module import UtteranceData
from vitspeech.data.utterances.word_clips import word_span
from vitspeech.errors import InputError, some_names
from vitspeech.files import walk_folder
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
    """Inputs for a comparison: from the data set that a card names, or the images or recordings of a folder.

    Those of a data set are from its validation split. The test split is not used, so that a model changed after looking
    at its fields has not been tuned on it. Utterances that are composed of single words are replaced by these words; of
    others the loudest second is taken. If the folder `root` does not hold the data set of any card, its files are
    taken, whatever they are.

    Args:
        subjects: The models; all take images, or all take audio.
        root: The folder of the data set, or of images or recordings.
        count: Maximum number of inputs.
    """
    audio_names = [subject.name for subject in subjects if subject.takes_audio]
    image_names = [subject.name for subject in subjects if not subject.takes_audio]
    if audio_names and image_names:
        raise InputError(f"{audio_names[0]} takes audio and {image_names[0]} takes images; compare models of one kind")
    problems = []
    for subject in subjects:
        if subject.model is None:
            continue
        try:
            data = card_dataset(subject.model, root)
        except (InputError, FileNotFoundError) as problem:  # it has other classes, is generated, or is not there
            problems.append(problem)
            continue
        data = getattr(data, "source", data)
        try:
            if isinstance(data, UtteranceData):
                return utterance_sample(data, round(subject.size * data.sample_rate_hz), count)
            return validation_sample(data, count)
        except FileNotFoundError as problem:
            problems.append(problem)
    if root is None:
        raise next(iter(problems), InputError("no model names its data set; name a folder of images by --data"))
    kind, endings = ("recordings", AUDIO_ENDINGS) if audio_names else ("images", PICTURE_ENDINGS)
    files = list(walk_folder(Path(root), endings)) if Path(root).is_dir() else []
    if not files:
        others = f", nor with a model's data set: {problems[0]}" if problems else ""
        raise FileNotFoundError(f"{root}: no folder with {kind}{others}")
    if problems:
        warnings.warn(f"{root}: holds the data set of none of the models, so any {kind} in it are taken", stacklevel=2)
    return folder_sample(Path(root), files, subjects, count)


def validation_sample(data: DataModule, count: int) -> Sample:
    """Random items of the validation split; clips without a word are left out."""
    items = data.read("validation")
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
    items = data.read("validation")
    if not len(items):
        raise InputError(f"{type(data).__name__}: no validation utterances")
    order = torch.randperm(len(items), generator=torch.Generator().manual_seed(SEED))[:count]
    clips = []
    for index in order:
        speech, _ = items[index[None], 0]
        clips.append(loudest(speech.waveforms[0, : speech.lengths[0]], samples))
    origin = f"{len(clips)} validation {data.items} of {type(data).__name__}, the loudest part of each"
    return Sample(torch.stack(clips), None, None, middles_of(clips), origin)


def loudest(waveform: Tensor, samples: int) -> Tensor:
    """The stretch of a waveform with the most energy: int16 (N,) -> (samples,)."""
    waveform = waveform.repeat(-(-samples // len(waveform)))
    energy = F.pad(waveform.double().square().cumsum(0), (1, 0))
    start = int((energy[samples:] - energy[:-samples]).argmax())
    return waveform[start : start + samples]


def middles_of(clips: Sequence[Tensor]) -> Tensor:
    """The middle of each clip (N,), for clips without a known word: (B,)."""
    return torch.full((len(clips),), (len(clips[0]) - 1) / 2)


def folder_sample(folder: Path, files: Sequence[Path], subjects: Sequence[Subject], count: int) -> Sample:
    """Random files of a folder: the central square of images, the loudest part of recordings.

    The labels are the names of the subfolders with the files, if all are in one. Files that cannot be read are left out
    with a warning.
    """
    audio, side = subjects[0].takes_audio, int(max(subject.size for subject in subjects))
    kind = "recordings" if audio else "images"

    def read(file: Path) -> Tensor:
        if not audio:
            return read_picture(file, side)
        rate_hz = subjects[0].preprocessing["sample_rate_hz"]
        return loudest(read_audio(file, rate_hz), round(subjects[0].size * rate_hz))

    order = torch.randperm(len(files), generator=torch.Generator().manual_seed(SEED)).tolist()
    inputs, taken, broken = [], [], []
    for file in (files[index] for index in order):
        if len(inputs) == count:
            break
        try:
            inputs.append(read(file))
            taken.append(file.relative_to(folder).parts)
        except (InputError, OSError) as error:
            broken.append(error)
    if broken:
        warnings.warn(f"{kind} that cannot be read are left out: {some_names(broken)}", stacklevel=2)
    if len(inputs) < 2:
        raise InputError(f"{folder}: a comparison needs at least 2 {kind} that can be read")
    names = sorted({parts[-2] for parts in taken}) if all(len(parts) > 1 for parts in taken) else None
    labels = None if names is None else torch.tensor([names.index(parts[-2]) for parts in taken])
    middles = middles_of(inputs) if audio else None
    origin = f"{len(inputs)} {kind} of {folder.resolve().name}" + ", the loudest part of each" * audio
    return Sample(torch.stack(inputs), labels, names, middles, origin)
