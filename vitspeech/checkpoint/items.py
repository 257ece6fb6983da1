"""Which items a run was trained on: checksums for the card, and a list to find them in a test set.

RUN/training_items.txt has one line per item that the run was ever trained on: the first 12 hexadecimal digits of the
SHA-256 of its name, sorted. 100,000 items take 1.3 MB.
"""

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vitspeech.data.files import write_text

TRAINING_ITEMS = "training_items.txt"
DIGITS = 12  # 48 bits: among 1,000,000 training items, one of 10,000 others is found by mistake with probability 4e-5
MOST_ITEMS = 1_000_000  # no list for larger sets, only checksums


def split_checksums(names: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """The number of items and the SHA-256 of each split: of its sorted names, each followed by a newline (UTF-8)."""
    texts = {split: "".join(f"{name}\n" for name in sorted(items)) for split, items in names.items()}
    return {
        split: {"items": len(names[split]), "sha256": hashlib.sha256(text.encode()).hexdigest()}
        for split, text in texts.items()
    }


def add_training_items(names: Iterable[str], run: Path) -> None:
    """Add the names of training items to the list of a run, which may have been started with others before.

    No list is written if there are no names, or more than `MOST_ITEMS`.
    """
    lines = training_items(run) | {digest(name) for name in names}
    if 0 < len(lines) <= MOST_ITEMS:
        write_text("".join(f"{line}\n" for line in sorted(lines)), run / TRAINING_ITEMS)


def training_items(folder: Path) -> set[str]:
    """The lines of the list of a run or a released model; empty without a list."""
    file = folder / TRAINING_ITEMS
    return set(file.read_text().split()) if file.exists() else set()


def digest(name: str) -> str:
    """The line of an item."""
    return hashlib.sha256(name.encode()).hexdigest()[:DIGITS]


def check_test_items(names: Mapping[str, Sequence[str]], card: Mapping[str, Any], folder: Path) -> None:
    """Check that a model was not trained on the items it is to be tested on, and that they are those of its card.

    Warns if the test set differs from the card's.

    Args:
        names: The names of the items of each split today; empty if the data set does not name its items.
        card: The model's card.
        folder: Folder of a run, its `model/`, or a released model.

    Raises:
        ValueError: If the model was trained on a test item.
    """
    test = names.get("test", ())
    trained = training_items(folder) or training_items(folder.resolve().parent)
    seen = [name for name in test if digest(name) in trained]
    if seen:
        raise ValueError(
            f"{folder}: was trained on {len(seen):,} of the {len(test):,} test items (by their names), first "
            f"{seen[0]}; provide a test set without them, or train again"
        )
    expected = card.get("splits", {}).get("test")
    if test and expected and split_checksums({"test": test})["test"] != expected:
        warnings.warn(
            f"the test set is not that of the card: {len(test):,} items, the card has {expected['items']:,}, or others",
            stacklevel=2,
        )
