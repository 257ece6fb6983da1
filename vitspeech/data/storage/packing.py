"""Writing a pack: row by row, shard by shard, so that a second start goes on where the first one was killed."""

import os
import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from vitspeech.data.files import sha256
from vitspeech.data.module import InMemoryData
from vitspeech.data.storage.broken import Broken
from vitspeech.data.storage.pack import Pack, ShardEntry, is_pack, read_pack
from vitspeech.data.storage.plan import Plan, make_plan
from vitspeech.data.storage.shards import Row, row_schema, write_shard
from vitspeech.errors import InputError
from vitspeech.writing import replacing

SPARE_BYTES = 2**24
TARGETS = {"utterances": "transcript"}


def write_pack(data: InMemoryData, folder: str | Path, *, shard_mb: float = 256, threads: int | None = None) -> Pack:
    """Pack a data set, or go on with packing it.

    Args:
        data: The data set.
        folder: A new or empty folder, or that of an unfinished pack of the same data set.
        shard_mb: About how many MB a file has.
        threads: Threads that read files; `None` is one for each core.

    Raises:
        InputError: If the data set cannot be packed, the folder holds something else, or too many files are broken.
        OSError: If a file cannot be read or written, or the disk is too small.
    """
    folder, threads = Path(folder), threads or os.cpu_count() or 1
    check_folder(folder)
    plan = make_plan(data, folder, round(shard_mb * 10**6), threads)
    pack = started(plan, folder)
    if pack.complete:
        return pack
    check_space(plan, pack)
    folder.mkdir(parents=True, exist_ok=True)
    for draft in folder.glob(".*.draft"):  # of a process that was killed
        draft.unlink()
    pack.write()
    items = sum(map(len, plan.contents.values()))
    done = sum(shard.rows + len(shard.broken) for split in pack.splits.values() for shard in split.shards)
    progress = tqdm(total=items, initial=done, desc="packing", unit="", disable=None)
    with progress, ThreadPoolExecutor(threads) as pool, warnings.catch_warnings(action="ignore"):
        for split in plan.contents:
            write_split(plan, pack, split, pool, progress, TARGETS.get(data.items, "label"))
    pack.complete = True
    pack.write()
    return pack


def write_split(plan: Plan, pack: Pack, split: str, pool: ThreadPoolExecutor, progress: tqdm, target: str) -> None:
    """Write the shards of a split that are missing, and note each in `pack.json`."""
    contents, entry, starts = plan.contents[split], pack.splits[split], plan.starts[split]
    found = contents.broken
    broken = Broken(found.share, found.count or len(contents), split)
    for name in (*found.places, *(name for shard in entry.shards for name in shard.broken)):
        broken.add(0, InputError(str(name)))
    width = contents.inputs.size(0) if pack.shape is not None and split in ("train", "validation", "test") else None
    schema = row_schema(width, target, sound=contents.sound)
    for number in range(len(entry.shards), len(starts) - 1):
        file, names = pack.folder / plan.file(split, number), []

        def batches(first: int = starts[number], last: int = starts[number + 1], names: list = names) -> Iterator:
            rows: list[Row] = []
            for begin in range(first, last, entry.rows_per_batch):
                indices = range(begin, min(begin + entry.rows_per_batch, last))
                for index, row in zip(indices, pool.map(lambda index: attempt(contents, index), indices), strict=True):
                    progress.update()
                    if isinstance(row, Exception):
                        broken.add(index, row)
                        names.append(contents.name(index) or str(index))
                    else:
                        rows.append(row)
                if len(rows) >= entry.rows_per_batch:
                    yield rows[: entry.rows_per_batch]
                    del rows[: entry.rows_per_batch]
            if rows:
                yield rows

        with replacing(file) as draft:
            count = write_shard(draft, schema, batches())
        entry.shards.append(ShardEntry(file.name, count, file.stat().st_size, sha256(file), names))
        pack.write()


def attempt(contents: Any, index: int) -> Row | Exception:
    """An item, or why it cannot be read."""
    try:
        return contents.row(index)
    except (InputError, OSError) as error:
        return error


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else than a pack.

    Raises:
        InputError: If it does, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is not a folder; name another one")
    foreign = sorted(file.name for file in folder.glob("*") if not file.name.endswith(".draft"))
    if foreign and not is_pack(folder):
        raise InputError(f"{folder}: has files that are no pack, such as {foreign[0]}; name another folder")


def started(plan: Plan, folder: Path) -> Pack:
    """The pack that is in the folder already, or that of the plan.

    Raises:
        InputError: If it is one of another data set, of other files or of another size of shards.
    """
    if not is_pack(folder):
        return plan.pack
    pack, other = read_pack(folder), f"{folder}: holds another pack"
    for name in ("data", "arguments", "labels", "preprocessing", "shape"):
        one, two = getattr(pack, name), getattr(plan.pack, name)
        if one != two:
            raise InputError(f"{other}, with {name}={one!r:.60} instead of {two!r:.60}; name another folder")
    if pack.splits.keys() != plan.pack.splits.keys():
        raise InputError(f"{other}, with other splits; name another folder")
    for split, entry in pack.splits.items():
        planned = asdict(plan.pack.splits[split])
        if {**asdict(entry), "shards": []} != planned:
            raise InputError(f"{other}: its {split} items are not those that there are now; name another folder")
        if [shard.file for shard in entry.shards] != [plan.file(split, k) for k in range(len(entry.shards))]:
            raise InputError(f"{other}, with shards of another size; give the same --shard-mb, or name another folder")
        for shard in entry.shards:
            file = folder / shard.file
            if not file.is_file() or file.stat().st_size != shard.bytes:
                raise InputError(f"{file}: is missing or damaged; remove the pack, and pack again")
    return pack


def check_space(plan: Plan, pack: Pack) -> None:
    """Refuse to begin if the disk is too small for what is left to write.

    Raises:
        InputError: If it is.
    """
    written = sum(shard.bytes for split in pack.splits.values() for shard in split.shards)
    needed = plan.bytes - written + SPARE_BYTES
    existing = next(path for path in (pack.folder.absolute(), *pack.folder.absolute().parents) if path.exists())
    if (free := shutil.disk_usage(existing).free) < needed:
        raise InputError(f"{pack.folder}: about {needed / 1e9:,.1f} GB are needed, and {free / 1e9:,.1f} GB are free")
