"""Writing a pack: item by item, so that a split need not fit into memory, and going on after an interruption."""

import hashlib
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import torch
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.batches import TensorItems
from vitspeech.data.module import DataModule
from vitspeech.data.storage.format import (
    DESCRIPTION,
    FORMAT,
    NOISE,
    PACK,
    ROWS_PER_BATCH,
    SCHEMA,
    SPLITS,
    files_of,
    index_file,
    read_description,
    shard_file,
)
from vitspeech.data.storage.packed import Pack, mapped
from vitspeech.data.storage.rows import UNREADABLE, row
from vitspeech.data.tables import to_text
from vitspeech.data.utterances.recorded import RecordedUtterances
from vitspeech.errors import InputError
from vitspeech.files import lock_beside, replacing, sha256, unlock, write_json

MB = 2**20
WRITTEN = ("splits", "listed", "broken", "files", "complete")  # of pack.json: what grows while it is written


@dataclass(frozen=True)
class Entries:
    """The items of a split, as a pack holds them.

    `read`, called from several threads, returns the bytes of the input of an index, and `describe` its columns of
    `DESCRIPTION` but for `bytes`.
    """

    read: Callable[[int], bytes]
    describe: Callable[[int], dict[str, Any]]
    count: int


class PackWriter:
    """Writes the splits of a data set into a folder, and goes on with what an interrupted start has written.

    The caller has locked the folder: drafts in it are taken for those of a start that was killed.

    Args:
        folder: The pack; it is created if it is missing.
        description: What `pack.json` says of the data set: `data`, `input`, `labels`, `preprocessing`, ...
        shard_mb: Size of a shard in MiB, above which no record batch is added to it.
        workers: Threads that read items.
        broken: The largest share of items of a split that cannot be read and are left out.
        progress: Show a progress bar.
    """

    def __init__(
        self,
        folder: Path,
        description: dict[str, Any],
        *,
        shard_mb: float = 256,
        workers: int = 4,
        broken: float = 0.0,
        progress: bool = True,
    ) -> None:
        self.folder, self.shard_bytes, self.workers = folder, shard_mb * MB, workers
        self.broken, self.progress = broken, progress
        base = {"format": FORMAT, "complete": False, "shard_mb": shard_mb, "rows_per_batch": ROWS_PER_BATCH}
        self.description = base | description | {"splits": {}, "listed": {}, "broken": {}, "files": {}}
        if (folder / PACK).exists():
            self.go_on(read_description(folder))
        elif folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder}: holds other files; name an empty folder or a new one")
        folder.mkdir(parents=True, exist_ok=True)
        for draft in folder.glob(".*.draft"):  # of a start that was killed
            draft.unlink()
        if not self.complete:
            self.save()  # a start that is killed before the first shard is complete can go on, too

    def go_on(self, written: dict[str, Any]) -> None:
        """Take over the shards of an earlier start, if there are any."""
        if not any(written["splits"].values()):
            return
        for name in [name for name in self.description if name not in WRITTEN]:
            if written.get(name) != self.description[name]:
                raise InputError(
                    f"{self.folder}: holds a pack with {name}={written.get(name)!s:.200}, not "
                    f"{self.description[name]!s:.200}; name another folder"
                )
        self.description = written
        for split, shards in written["splits"].items():
            until = shards[-1]["until"] if shards else 0
            written["broken"][split] = [item for item in written["broken"][split] if item["index"] < until]

    @property
    def complete(self) -> bool:
        """Whether all splits are written."""
        return self.description["complete"]

    def write(self, split: str, entries: Entries) -> None:
        """Write the shards of a split that are missing, and then its index; nothing if the pack is complete."""
        listed = listing(entries)
        if self.description["listed"].setdefault(split, listed) != listed:
            raise InputError(
                f"{self.folder}: was begun with other items of {split} than there are now; name another folder"
            )
        if self.complete:
            return
        shards = self.description["splits"].setdefault(split, [])
        broken = self.description["broken"].setdefault(split, [])
        place = shards[-1]["until"] if shards else 0
        with (
            tqdm(total=entries.count, initial=place, desc=f"packing {split}", disable=not self.progress) as bar,
            ThreadPoolExecutor(self.workers) as threads,
        ):
            rows = self.rows(entries, place, threads, broken, bar)
            while place < entries.count:
                file = self.folder / shard_file(split, len(shards))
                items, until = self.write_shard(file, rows)
                if not items:
                    break
                size = file.stat().st_size
                shards.append(
                    {"file": file.name, "items": items, "until": until, "bytes": size, "sha256": sha256(file)}
                )
                place = until
                self.save()
        if broken:
            count = f"{len(broken):,} of {entries.count:,} items of {split} cannot be read"
            warnings.warn(f"{count} and are left out; first {broken[0]['error']}", stacklevel=2)
        self.write_index(split)

    def rows(
        self, entries: Entries, start: int, threads: ThreadPoolExecutor, broken: list[dict[str, Any]], bar: tqdm
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (index + 1, row) for each item that can be read, in order; threads read ahead of it."""
        ahead, most = deque(), 4 * self.workers

        def collect() -> Iterator[tuple[int, dict[str, Any]]]:
            index, future = ahead.popleft()
            bar.update()
            try:
                content = future.result()
            except UNREADABLE as error:
                broken.append({"index": index, "error": str(error)})
                if len(broken) > self.broken * entries.count:
                    count = f"{len(broken):,} of {entries.count:,} items"
                    raise InputError(f"{count} cannot be read, above broken={self.broken:g}; {error}") from None
                return
            described = entries.describe(index).items()
            texts = {name: to_text(value) if isinstance(value, str) else value for name, value in described}
            yield index + 1, {"input": content, "bytes": len(content)} | texts

        for index in range(start, entries.count):
            if len(ahead) == most:
                yield from collect()
            ahead.append((index, threads.submit(entries.read, index)))
        while ahead:
            yield from collect()

    def write_shard(self, file: Path, rows: Iterator[tuple[int, dict[str, Any]]]) -> tuple[int, int]:
        """Write rows until the shard is full; the number of items, and the index after the last one."""
        items, size, until = 0, 0, 0
        with (
            replacing(file) as draft,
            pyarrow.OSFile(str(draft), "wb") as sink,
            pyarrow.ipc.new_file(sink, SCHEMA) as writer,
        ):
            while size < self.shard_bytes:
                batch = list(islice(rows, ROWS_PER_BATCH))
                if not batch:
                    break
                until = batch[-1][0]
                writer.write_batch(pyarrow.RecordBatch.from_pylist([row for _, row in batch], schema=SCHEMA))
                items, size = items + len(batch), size + sum(row["bytes"] for _, row in batch)
        if not items:
            file.unlink()
        return items, until

    def write_index(self, split: str) -> None:
        """Write what describes the items of a split, taken from its shards."""
        columns = [SCHEMA.get_field_index(name) for name in DESCRIPTION.names]
        with (
            replacing(index_file(self.folder, split)) as draft,
            pyarrow.OSFile(str(draft), "wb") as sink,
            pyarrow.ipc.new_file(sink, DESCRIPTION) as writer,
        ):
            for shard in self.description["splits"][split]:
                table = mapped(self.folder / shard["file"]).read_all().select(columns).combine_chunks()
                writer.write_table(table)

    def write_noise(self, noise: Any) -> None:
        """Write the noise that augmentation mixes in, int16 (N,)."""
        content = pyarrow.record_batch({"input": pyarrow.array([noise.numpy().tobytes()], pyarrow.large_binary())})
        with (
            replacing(self.folder / NOISE) as draft,
            pyarrow.OSFile(str(draft), "wb") as sink,
            pyarrow.ipc.new_file(sink, content.schema) as writer,
        ):
            writer.write_batch(content)

    def finish(self) -> None:
        """Mark the pack as complete, with the checksums of the files that are no shards."""
        others = [index_file(self.folder, split) for split in self.description["splits"]]
        others += [file for file in (self.folder / NOISE,) if file.exists()]
        self.description["files"] = {
            file.name: {"bytes": file.stat().st_size, "sha256": sha256(file)} for file in others
        }
        self.description["complete"] = True
        self.save()

    def save(self) -> None:
        """Write `pack.json`."""
        write_json(self.description, self.folder / PACK)


def listing(entries: Entries) -> str:
    """The SHA-256 of what is known of the items of a split without reading them."""
    digest = hashlib.sha256()
    for index in range(entries.count):
        digest.update(f"{entries.describe(index)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def check_pack(folder: Path, *, progress: bool = True) -> int:
    """Compare each file of a pack with its checksum; the number of items."""
    description = Pack(folder).description
    for name, (_, checksum) in tqdm(files_of(description).items(), "checking", disable=not progress, leave=False):
        if sha256(folder / name) != checksum:
            raise InputError(f"{folder / name}: is not as it was written (its SHA-256 differs); copy it again")
    return sum(shard["items"] for shards in description["splits"].values() for shard in shards)


def pack(data: DataModule, folder: Path, source: dict[str, Any], **options: Any) -> None:
    """Write all splits of a data set into a pack, or the rest of one that was interrupted.

    Args:
        data: The data set, which reads its files one by one (`storage="files"`) if they do not fit into memory.
        folder: The pack.
        source: Class and arguments of the data set, by which a pack that is not finished is recognized.
        **options: Those of `PackWriter`: `shard_mb`, `workers` and `progress`.
    """
    data.prepare_data()
    dataset = data.read("train")
    about = {"data": source, "input": form(dataset), "items": data.items, "labels": list(data.labels)}
    about |= {"preprocessing": data.preprocessing}
    if hasattr(data, "heard_words"):
        about["heard_words"] = data.heard_words
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_beside(folder)
    try:
        writer = PackWriter(folder, about, broken=data.broken, **options)
        for split in SPLITS:
            dataset = dataset if split == "train" else data.read(split)
            # Reading a split may leave broken files out, and their names.
            writer.write(split, entries(dataset, data.item_names().get(split, ())))
        if writer.complete:
            return
        if data.items == "clips":
            writer.write_noise(data.noise)
        writer.finish()
    finally:
        unlock(lock)


def form(dataset: Dataset) -> dict[str, Any]:
    """What the bytes of an input are."""
    if isinstance(dataset, RecordedUtterances):
        return {"kind": "numbers", "dtype": "int16", "shape": [-1]}
    if not isinstance(dataset, TensorItems):
        raise InputError(f"a {type(dataset).__name__} cannot be packed; images, clips and recorded utterances can")
    if hasattr(dataset.inputs, "content"):
        return {"kind": "file"}
    first = dataset.inputs[torch.arange(1)][0]
    return {"kind": "numbers", "dtype": str(first.numpy().dtype), "shape": list(first.shape)}


def entries(dataset: TensorItems | RecordedUtterances, names: Any) -> Entries:
    """The items of a split, as a pack holds them; `names` are those of the first items, others have none."""

    def describe(index: int) -> dict[str, Any]:
        name = names[index] if index < len(names) else None
        if isinstance(dataset, RecordedUtterances):
            item = dataset.utterances[index]
            about = {"speaker": item.speaker, "transcript": " ".join(item.words), "label": None}
            return {"name": name or item.id} | about
        speaker = None if dataset.speakers is None else dataset.speakers[index]
        return {"label": int(dataset.labels[index]), "name": name, "speaker": speaker, "transcript": None}

    def read(index: int) -> bytes:
        if hasattr(dataset, "sound"):
            values = dataset.sound(index)
        elif hasattr(dataset.inputs, "content"):
            return dataset.inputs.content(index)
        else:
            values = row(dataset.inputs, index)
        return numpy.ascontiguousarray(values.numpy()).tobytes()

    return Entries(read, describe, len(dataset))
