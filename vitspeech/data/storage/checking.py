"""Checking a pack against its checksums."""

import hashlib
from pathlib import Path

from tqdm import tqdm

from vitspeech.data.storage.pack import Pack, read_pack
from vitspeech.data.storage.shards import Shard
from vitspeech.errors import InputError

BLOCK = 2**20


def check_pack(folder: str | Path) -> Pack:
    """Compare every shard with its size, its number of rows and its SHA-256.

    Raises:
        FileNotFoundError: If there is no pack, or a shard is missing.
        InputError: If a shard differs; the message names the first one.
    """
    pack = read_pack(folder)
    pack.check_files()
    total = sum(shard.bytes for split in pack.splits.values() for shard in split.shards)
    with tqdm(total=total, desc="checking", unit="B", unit_scale=True, disable=None, leave=False) as progress:
        for split in pack.splits.values():
            for entry in split.shards:
                file, digest = pack.folder / entry.file, hashlib.sha256()
                with file.open("rb") as content:
                    while block := content.read(BLOCK):
                        digest.update(block)
                        progress.update(len(block))
                if digest.hexdigest() != entry.sha256:
                    raise InputError(f"{file}: differs from its SHA-256 in pack.json; copy it again, or pack anew")
                Shard(file, entry.rows, split.rows_per_batch)
    return pack
