"""A list of 1,200 everyday English words, split for character recognition of words that are not in training.

The list was compiled for this package. It has no names, no two words that sound the same in any accent of the
synthesizer, and only one word of each family such as `walk` and `walked`, so that held-out words differ from training
words in more than their ending. A second list has 4,000 further words for training. None of them sounds like another
word of either list. None is of the family of a held-out word, or contains a held-out word of at least four letters.
"""

import functools
import hashlib
import itertools
from pathlib import Path
from typing import Literal

WORDS = Path(__file__).with_suffix(".txt")
FURTHER_WORDS = Path(__file__).with_name("further_words.txt")
SPLITS = {"train": 1000, "validation": 100, "test": 100}  # words


@functools.cache
def vocabulary(split: Literal["train", "validation", "test"]) -> tuple[str, ...]:
    """The words of a split in alphabetical order: 1000 for training, 100 each for validation and test.

    Words are assigned to splits in the order of their hash, so each split is a random sample and always the same.
    """
    words = in_order_of_hash(WORDS)
    ends = dict(zip(SPLITS, itertools.accumulate(SPLITS.values()), strict=True))
    return tuple(sorted(words[ends[split] - SPLITS[split] : ends[split]]))


@functools.cache
def further_words() -> tuple[str, ...]:
    """The 4,000 further words for training, in the order of their hash, so that the first ones are a random sample."""
    return tuple(in_order_of_hash(FURTHER_WORDS))


def in_order_of_hash(file: Path) -> list[str]:
    """The words of a file, in the order of their hash."""
    return sorted(file.read_text(encoding="ascii").split(), key=lambda word: hashlib.blake2b(word.encode()).digest())
