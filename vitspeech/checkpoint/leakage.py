"""Which items a run was trained on: checksums for the card, and a list to find them in a test set.

RUN/training_items.txt has one line per item that the run, or the model that it starts from, was ever trained on: the
first 12 hexadecimal digits of the SHA-256 of its name and, if it is a file, its size in bytes, sorted. 100,000 items
take 1.3 MB. Another data set may use the same names, such as `wavs/001.wav`; its files are taken for the same only if
they have the same sizes, too. The checksums on the card are of names alone.
"""

import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitspeech.errors import InputError
from vitspeech.files import check_links, read_text, write_text

TRAINING_ITEMS = "training_items.txt"
DIGITS = 12  # 48 bits: among 1,000,000 training items, one of 10,000 others is found by mistake with probability 4e-5
LINE = re.compile(rf"[0-9a-f]{{{DIGITS}}}")
MOST_ITEMS = 1_000_000  # no list for larger sets, only checksums


def split_checksums(names: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """The number of items and the SHA-256 of each split: of its sorted names, each followed by a newline (UTF-8)."""
    texts = {split: "".join(f"{name}\n" for name in sorted(items)) for split, items in names.items()}
    return {
        split: {"items": len(names[split]), "sha256": hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()}
        for split, text in texts.items()
    }


def add_training_items(names: Sequence[str], run: Path, root: Path | None = None) -> None:
    """Add training items to the list of a run, which may have been started with others before.

    Names are relative to `root`, which is `None` if the items are not files. Without names, or with more than
    `MOST_ITEMS`, no list is written.
    """
    if len(names) <= MOST_ITEMS:
        add_lines({digest(name, root) for name in names}, run)


def add_lines(lines: set[str], run: Path) -> None:
    """Add lines to the list of a run."""
    lines = training_items(run) | lines
    if 0 < len(lines) <= MOST_ITEMS:
        write_text("".join(f"{line}\n" for line in sorted(lines)), run / TRAINING_ITEMS)


def training_items(folder: Path) -> set[str]:
    """The lines of the list of a run, of its `model/` or of a released model; empty without a list."""
    folder = folder.resolve()
    file = folder / TRAINING_ITEMS
    if not file.exists():
        return training_items(folder.parent) if folder.name == "model" else set()
    check_links(folder, [TRAINING_ITEMS])
    lines = read_text(file, most_bytes=(DIGITS + 2) * MOST_ITEMS).split()
    if not all(map(LINE.fullmatch, lines)):
        raise InputError(f"{file}: not a list of training items; each line has {DIGITS} hexadecimal digits")
    return set(lines)


def digest(name: str, root: Path | None = None) -> str:
    """The line of an item: of its name and, if it is a file in `root`, of its size in bytes."""
    is_file = root is not None and (root / name).is_file()
    text = f"{name}\n{(root / name).stat().st_size}" if is_file else name
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:DIGITS]


def check_test_items(
    names: Mapping[str, Sequence[str]],
    card: Mapping[str, Any],
    folder: Path,
    root: Path | None = None,
    *,
    same: bool = False,
) -> None:
    """Check that a model was not trained on the items it is to be tested on, and that they are those of its card.

    Files are the same as in training if their names relative to the root and their sizes in bytes are. Their contents
    are not read, so a renamed or copied file is not recognized. Items that are not files, such as rows of a table, are
    compared by their names, if those of training were no files either. Warns if the names of the test set differ from
    the card's.

    `folder` is that of a run, its `model/`, or a released model. `same` refuses a test set whose names differ, in place
    of the warning.
    """
    test = names.get("test", ())
    trained = training_items(folder)
    seen = [name for name in test if digest(name, root) in trained or digest(name) in trained]
    if seen:
        compared = "names" if root is None else "names and sizes"
        raise InputError(
            f"{folder}: was trained on {len(seen):,} of the {len(test):,} test items (by their {compared}), first "
            f"{seen[0]}; provide a test set without them, or train again"
        )
    expected = card.get("splits", {}).get("test")
    if test and expected and split_checksums({"test": test})["test"] != expected:
        message = f"the test set is not the one of the card (items: {len(test):,} now, {expected['items']:,} then)"
        if same:
            raise InputError(message)
        warnings.warn(message, stacklevel=2)
