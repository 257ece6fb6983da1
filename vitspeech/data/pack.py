"""Writing any data set of images, clips or recorded utterances as one of Hugging Face's, by `save_to_disk`."""

import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.audio.reading import HEAD_BYTES, SAMPLE_RATE_HZ, wav_head
from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.hub import imported
from vitspeech.data.hugging_face_labels import NOISE
from vitspeech.data.labeled_files import SPLIT_NAMES
from vitspeech.data.module import DataModule
from vitspeech.data.rows import UNREADABLE, Content, FileRows
from vitspeech.data.tables import to_text
from vitspeech.data.utterances.recorded import RecordedUtterances
from vitspeech.errors import InputError

MB = 2**20
AT_ONCE, MOST_BYTES = 100, 2**28  # items of a record batch, and about its size: its offsets have 32 bits
LEFT_OUT = "left_out.txt"
CLASSES = {"images": "HuggingFaceImages", "clips": "HuggingFaceClips", "utterances": "HuggingFaceUtterances"}  # to read


def pack(
    data: DataModule, folder: Path, *, shard_mb: float = 256, workers: int = 4, progress: bool = True
) -> dict[str, int]:
    """Write all splits of a data set into a new folder, whole or not at all; the number of items of each.

    Images are stored as their files, those in memory as PNG; sound as WAV of 16 bits at 16 kHz. The noise that
    augmentation mixes in becomes a split `noise` unless it is generated. What cannot be read is left out up to
    `data.broken`, and listed in `left_out.txt`.

    Args:
        data: The data set, which reads its files one by one (`storage="files"`) if they do not fit into memory.
        folder: The folder; it must not exist, or be empty.
        shard_mb: Size of a file in MB.
        workers: Threads that read items.
        progress: Show a progress bar.
    """
    library = imported()
    audio, text = library.Audio(SAMPLE_RATE_HZ), library.Value("string")
    columns = {"audio": audio, "speaker": text, "transcript": text, "seconds": library.Value("float64")}
    if data.items != "utterances":
        columns = {"image": library.Image()} if data.items == "images" else {"audio": audio, "speaker": text}
        columns["label"] = library.ClassLabel(names=list(data.labels))
    columns["file"] = text
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: holds other files; name an empty folder or a new one")
    data.prepare_data()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as drafts:
        written, left_out = {}, []

        def write_split(split: str, columns: dict[str, Any], rows: Iterable[Sequence[dict[str, Any]]]) -> None:
            write(Path(drafts, split), library.Features(columns).arrow_schema, rows)
            written[split] = library.Dataset.from_file(str(Path(drafts, split)))

        for split in SPLIT_NAMES:
            dataset, broken = data.read(split), []
            if not isinstance(dataset, TensorItems | RecordedUtterances) or data.items not in CLASSES:
                raise InputError(f"{type(data).__name__} cannot be packed; images, clips and recorded utterances can")
            with tqdm(total=len(dataset), desc=f"packing {split}", disable=not progress) as bar:
                write_split(split, columns, rows_of(dataset, data.item_names().get(split, ()), workers, broken, bar))
            if len(broken) > data.broken * len(dataset):
                count = f"{len(broken):,} of {len(dataset):,} items of {split}"
                raise InputError(f"{count} cannot be read, above broken={data.broken:g}; first {broken[0]}")
            left_out += [f"{split}: {error}\n" for error in broken]
        if data.items == "clips" and not torch.equal(data.noise, pink_noise(data.samples)):
            write_split(NOISE, {"audio": audio}, [[{"audio": {"bytes": encoded(data.noise)}}]])
        made = Path(drafts, "made")
        library.DatasetDict(written).save_to_disk(made, max_shard_size=round(shard_mb * MB))
        if left_out:
            (made / LEFT_OUT).write_text("".join(left_out), "utf-8")
        made.rename(folder)
    return {split: len(rows) for split, rows in written.items()}


def rows_of(
    dataset: Dataset, names: Sequence[str], workers: int, broken: list[str], bar: tqdm
) -> Iterator[list[dict[str, Any]]]:
    """The rows of the items that can be read, in their order, which threads read; errors of others are `broken`."""

    def read(index: int) -> dict[str, Any] | None:
        try:
            return row_of(dataset, index, names[index] if index < len(names) else None)
        except UNREADABLE as error:
            broken.append(str(error))
            return None

    with ThreadPoolExecutor(workers) as threads:
        for start in range(0, len(dataset), AT_ONCE):
            indices = range(start, min(start + AT_ONCE, len(dataset)))
            yield list(filter(None, threads.map(read, indices)))
            bar.update(len(indices))


def row_of(dataset: Dataset, index: int, name: str | None) -> dict[str, Any]:
    """The columns of an item, and some that its data set does not have."""
    if isinstance(dataset, RecordedUtterances):
        item, content = dataset.utterances[index], encoded(dataset.sound(index))
        name, about = name or item.id, {"speaker": item.speaker, "transcript": " ".join(item.words)}
    else:
        content = content_of(dataset.inputs, index)
        about = {"speaker": dataset.speakers and dataset.speakers[index], "label": int(dataset.labels[index])}
    file = {"bytes": content, "path": to_text(name)}
    seconds = (len(content) - HEAD_BYTES) / 2 / SAMPLE_RATE_HZ
    about = {name: to_text(value) if isinstance(value, str) else value for name, value in about.items()}
    return about | {"image": file, "audio": file, "file": to_text(name), "seconds": seconds}


def content_of(inputs: Any, index: int) -> bytes:
    """The file of an image that can be read, or what is in memory as a file."""
    values = inputs[index] if isinstance(inputs, Tensor) else inputs.row(index)
    if values.ndim == 1 or not isinstance(inputs, FileRows):
        return encoded(values)
    file = inputs.files[index]
    return file.content.to_pybytes() if isinstance(file, Content) else file.read_bytes()


def encoded(values: Tensor) -> bytes:
    """A WAV file of samples at 16 kHz, int16 (N,), or a PNG file of an image, uint8 (3, N, N)."""
    if values.ndim == 1:
        return wav_head(len(values)) + values.numpy().tobytes()
    file = io.BytesIO()
    Image.fromarray(values.permute(1, 2, 0).contiguous().numpy()).save(file, "png", compress_level=1)
    return file.getvalue()


def write(file: Path, schema: pyarrow.Schema, rows: Iterable[Sequence[dict[str, Any]]]) -> None:
    """Write a stream of record batches, as `Dataset.from_file` reads it."""
    with pyarrow.OSFile(str(file), "wb") as sink, pyarrow.ipc.new_stream(sink, schema) as writer:
        for some in rows:
            while some:
                sizes = numpy.cumsum([len((item.get("image") or item["audio"])["bytes"]) for item in some])
                until = max(1, int((sizes < MOST_BYTES).sum()))
                writer.write_batch(pyarrow.RecordBatch.from_pylist(some[:until], schema))
                some = some[until:]
