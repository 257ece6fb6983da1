"""Held-out splits: which training items become validation or test items when a data set does not say so itself.

The choice depends on hashes of names, so neither on the run's seed nor on where a folder lies.
"""

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from vitspeech.errors import InputError

SPLIT_SEED = 20_261_121
PERCENTAGES = {"validation": (0, 10), "test": (10, 20)}
MODULUS = 2**27
EXACT = 2000  # items of a label, below which its splits have exact sizes
NO_HASH = "_nohash_"  # in names such as 0a7c2a8d_nohash_0.wav, it follows the speaker


def split_indices(count: int, validation: int) -> tuple[Tensor, Tensor]:
    """Split a set whose items never change at random: the sorted indices of the training and of the held-out items."""
    if not 0 < validation < count:
        raise InputError(f"validation={validation} is not within 1..{count - 1}, the items that are not test items")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SPLIT_SEED))
    return order[validation:].sort().values, order[:validation].sort().values


def stratified_splits(names: Sequence[str], labels: Sequence[str], held_out: Sequence[str], root: Path) -> list[str]:
    """Assign items to splits label by label: a tenth to each split in `held_out`, the rest to `train`.

    Of fewer than `EXACT` items of a label it is exactly a tenth, rounded, and at least one: those whose hashes are the
    nearest to the middle of the split's percentages. So an item that is added moves at most one other into or out of a
    split. Of more items the hash alone decides (`split_at`), and none moves. A label with too few items for one in each
    split stays in `train`, unless all labels are like that (`hashed_splits`).
    """
    of_labels = defaultdict(list)
    for place, label in enumerate(labels):
        of_labels[label].append(place)
    if all(len(places) <= len(held_out) for places in of_labels.values()):
        return hashed_splits(names, held_out, root)
    splits, hashes = ["train"] * len(names), [percentage(name) for name in names]
    for places in of_labels.values():
        if len(places) >= EXACT:
            for place in places:
                splits[place] = split_at(hashes[place], held_out)
        elif len(places) > len(held_out):
            count, rest = max(1, (len(places) + 5) // 10), places
            for split, (low, high) in PERCENTAGES.items():  # all of them, so that one does not depend on the others
                rest = sorted(rest, key=lambda place: (abs(hashes[place] - (low + high) / 2), names[place]))
                for place in rest[:count] if split in held_out else ():
                    splits[place] = split
                rest = rest[count:]
    return splits


def hashed_splits(keys: Sequence[str], held_out: Sequence[str], root: Path) -> list[str]:
    """Assign items to splits by the hash of their keys: about a tenth to each split in `held_out`, the rest to `train`.

    A key is the speaker of an item, for example. Whether an item is held out depends on its key alone, as in Speech
    Commands (Warden 2018, arXiv:1804.03209), so it stays where it is when others are added or removed. Items of one key
    stay together.

    There is one exception, for sets of few keys: a split that no key falls into gets the one with the smallest hash in
    the largest split. Such a set may change when it grows, until a key falls into each split by itself.
    """
    percentages = {key: percentage(key) for key in keys}
    if len(percentages) <= len(held_out):
        names = " and ".join(held_out)
        raise InputError(
            f"{root}: {len(percentages)} recordings, images or speakers are too few to hold out some for {names}; "
            f"add more, or provide {names}"
        )
    splits = {key: split_at(value, held_out) for key, value in percentages.items()}
    for split in (*held_out, "train"):
        if split not in splits.values():
            largest = Counter(splits.values()).most_common(1)[0][0]
            candidates = [key for key, other in splits.items() if other == largest]
            splits[min(candidates, key=lambda key: (percentages[key], key))] = split
    return [splits[key] for key in keys]


def split_at(value: float, held_out: Sequence[str], ranges: Mapping[str, tuple[float, float]] = PERCENTAGES) -> str:
    """The split that a percentage falls into: one of those held out, each with its range, or `train`."""
    return next((split for split in held_out if ranges[split][0] <= value < ranges[split][1]), "train")


def percentage(key: str) -> float:
    """A number from 0 to 100 that depends on the key only: that of `which_set` of Speech Commands."""
    return int(digest(key), 16) % MODULUS * (100 / (MODULUS - 1))


def digest(key: str) -> str:
    """A hash of a key, by which keys can be put into an order that looks random."""
    encoded = unicodedata.normalize("NFC", key).encode(errors="surrogateescape")
    return hashlib.sha1(encoded, usedforsecurity=False).hexdigest()


def relative_name(file: Path, root: Path) -> str:
    """The path of a file relative to the root, with `/` on every system; of a file elsewhere, its path."""
    return (file.relative_to(root) if file.is_relative_to(root) else file).as_posix()


def speaker_in_name(name: str) -> str | None:
    """The speaker that a file name states, as in Speech Commands: `0a7c2a8d` of `yes/0a7c2a8d_nohash_0.wav`."""
    speaker, mark, _ = name.rpartition("/")[2].partition(NO_HASH)
    return speaker if mark else None
