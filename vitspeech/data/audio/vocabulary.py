"""Twelve hundred everyday English words, to write what is heard letter by letter, also words that nobody trained on.

The list was written for this package, word by word, and stands under no terms but its own. It has no names, no two
words that sound the same in any accent of the synthesizer, and of each family, as `walk` and `walked`, a single word:
so a word that is held out is new by more than its ending.
"""

import functools
import hashlib
import itertools
from pathlib import Path
from typing import Literal

WORDS = Path(__file__).with_suffix(".txt")
SPLITS = {"train": 1000, "validation": 100, "test": 100}  # words


@functools.cache
def vocabulary(split: Literal["train", "validation", "test"]) -> tuple[str, ...]:
    """The words of a split in alphabetical order: 1000 to train on, 100 each for validation and test.

    Words go in the order of their hash, so that a split is as mixed as the list and the same everywhere.

    Raises:
        ValueError: If the split is unknown.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is unknown; known: {', '.join(SPLITS)}")
    words = sorted(WORDS.read_text(encoding="ascii").split(), key=lambda word: hashlib.blake2b(word.encode()).digest())
    ends = dict(zip(SPLITS, itertools.accumulate(SPLITS.values()), strict=True))
    return tuple(sorted(words[ends[split] - SPLITS[split] : ends[split]]))
