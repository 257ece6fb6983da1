"""Packing a data set: what is an item's input, and what is said of it."""

from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.batches import Items
from vitspeech.data.locks import locked
from vitspeech.data.module import InMemoryData
from vitspeech.data.storage.format import SPLITS
from vitspeech.data.storage.pack import Entries, PackWriter
from vitspeech.data.storage.rows import row
from vitspeech.data.utterances.recordings import RecordedUtterances
from vitspeech.errors import InputError


def pack(
    data: InMemoryData,
    folder: Path,
    source: dict[str, Any],
    *,
    shard_mb: float = 256,
    workers: int = 4,
    progress: bool = True,
) -> None:
    """Write all splits of a data set into a pack, or the rest of one that was interrupted.

    Args:
        data: The data set, which reads its files one by one (`storage="files"`) if they do not fit into memory.
        folder: The pack.
        source: Class and arguments of the data set, by which a pack that is not finished is recognized.
        shard_mb: Size of a shard in MiB.
        workers: Threads that read items.
        progress: Show a progress bar.

    Raises:
        InputError: If the data set cannot be packed, the folder holds something else, such as a finished pack of other
            items, another process is writing it, or too many items are broken.
    """
    data.prepare_data()
    data.check_names()
    dataset = data.read("train")
    about = {"data": source, "input": form(dataset), "items": data.items, "labels": list(data.labels)}
    about |= {"preprocessing": data.preprocessing}
    if hasattr(data, "heard_words"):
        about["heard_words"] = data.heard_words
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        writer = PackWriter(folder, about, shard_mb=shard_mb, workers=workers, broken=data.broken, progress=progress)
        for split in SPLITS:
            dataset = dataset if split == "train" else data.read(split)
            # Reading a split may leave broken files out, and their names.
            writer.write(split, entries(dataset, data.item_names().get(split, ())))
        if writer.complete:
            return
        if data.items == "clips":
            writer.write_noise(data.noise)
        writer.finish()


def form(dataset: Dataset) -> dict[str, Any]:
    """What the bytes of an input are.

    Raises:
        InputError: If a pack cannot hold the items of this data set.
    """
    if isinstance(dataset, RecordedUtterances):
        return {"kind": "numbers", "dtype": "int16", "shape": [-1]}
    if not isinstance(dataset, Items):
        raise InputError(f"a {type(dataset).__name__} cannot be packed; images, clips and recorded utterances can")
    if hasattr(dataset.inputs, "content"):
        return {"kind": "file"}
    first = take_first(dataset.inputs)
    return {"kind": "numbers", "dtype": str(first.numpy().dtype), "shape": list(first.shape)}


def take_first(inputs: Any) -> Tensor:
    """The first row, for its type and shape."""
    return inputs[torch.arange(1)][0]


def entries(dataset: Items | RecordedUtterances, names: Any) -> Entries:
    """The items of a split, as a pack holds them; `names` are those of the first items, others have none."""
    if isinstance(dataset, RecordedUtterances):

        def read_sound(index: int) -> bytes:
            return content(dataset.sounds[index])

        def describe_utterance(index: int) -> dict[str, Any]:
            utterance = dataset.utterances[index]
            name, transcript = names[index] if names else utterance.id, " ".join(utterance.words)
            return {"name": name, "speaker": utterance.speaker, "transcript": transcript, "label": None}

        return Entries(read_sound, describe_utterance, len(dataset))

    inputs, speakers = dataset.inputs, dataset.speakers

    def describe(index: int) -> dict[str, Any]:
        return {
            "label": int(dataset.labels[index]),
            "name": names[index] if index < len(names) else None,
            "speaker": None if speakers is None else speakers[index],
            "transcript": None,
        }

    if hasattr(inputs, "content"):
        return Entries(inputs.content, describe, len(dataset))
    return Entries(lambda index: content(row(inputs, index)), describe, len(dataset))


def content(values: Tensor) -> bytes:
    """The bytes of an input."""
    return numpy.ascontiguousarray(values.numpy()).tobytes()
