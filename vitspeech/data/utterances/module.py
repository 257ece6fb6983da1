"""Utterances of any length with their transcripts: what is the same wherever they come from.

Shapes: B utterances, N samples.
"""

import string
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.batches import InMemoryData
from vitspeech.data.utterances.augment import SequenceAugment
from vitspeech.data.utterances.composition import Speech

UNITS = ("words", "characters")
CHARACTERS = (" ", "'", *string.ascii_lowercase)
SHOWN = 50  # labels in a message: all characters, not all words


class UtteranceData(InMemoryData):
    """A set of utterances: a subclass sets `labels`, and implements `read` and `tests`. Batches are (`Speech`, seed).

    Args:
        units: What is recognized: `words`, or `characters` (a space between words).
        batch: Utterances a training batch, on each device.
        augment: What happens to training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If `batch` is below 1 or `units` are unknown.
    """

    items = "utterances"
    evaluation_batch = 64
    sample_rate_hz = SAMPLE_RATE_HZ
    manifests: Sequence[str] = ()  # those that the test sets are read from

    def __init__(self, *, units: str, batch: int, augment: SequenceAugment | None, seed: int) -> None:
        super().__init__(batch=batch, seed=seed)
        if units not in UNITS:
            raise ValueError(f"units={units!r} is unknown; known: {', '.join(UNITS)}")
        self.units = units
        self.augment = SequenceAugment() if augment is None else augment

    @property
    def preprocessing(self) -> dict[str, Any]:
        return {"sample_rate_hz": self.sample_rate_hz, "units": self.units}

    def tests(self) -> dict[str, Dataset]:
        """The test sets by name, the one that counts first; each has `utterances` with their `id` and `words`."""
        raise NotImplementedError

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The index of each label."""
        return {label: number for number, label in enumerate(self.labels)}

    def encoded(self, words: Sequence[str]) -> list[int]:
        """The units of a transcript, as indices of the labels.

        Raises:
            ValueError: If a word or a character is outside the vocabulary.
        """
        said = list(words) if self.units == "words" else list(" ".join(words))
        strange = next((unit for unit in said if unit not in self.numbers), None)
        if strange is not None:
            known = ", ".join(self.labels[:SHOWN]) + (", …" if len(self.labels) > SHOWN else "")
            raise ValueError(f"{strange!r} of {' '.join(words)!r} is outside the vocabulary {known}")
        return [self.numbers[unit] for unit in said]

    def normalized(self, inputs: Tensor) -> Tensor:
        """int16 samples (B, N) -> floats within ±1."""
        return inputs / 32768

    def augmented(self, speech: Speech) -> Speech:
        """Training utterances as the network sees them, floats; drawn from torch's generator."""
        return self.augment(speech)

    def on_after_batch_transfer(self, batch: tuple[Speech, int], dataloader_idx: int) -> Speech:
        """Utterances as integers, seed -> floats, augmented in training."""
        speech, seed = batch
        speech = speech._replace(waveforms=self.normalized(speech.waveforms))
        if not self.trainer.training:
            return speech
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        return self.augmented(speech)


def check_vocabulary(vocabulary: Sequence[str], units: str) -> None:
    """Refuse what transcripts cannot be made of.

    Raises:
        ValueError: If it is empty or has an entry twice, a word is empty or has white space in it, or a character is
            none or the space is missing.
    """
    if not vocabulary:
        raise ValueError("vocabulary is empty")
    for unit, count in Counter(vocabulary).items():
        if count > 1:
            raise ValueError(f"vocabulary has {unit!r} twice")
        if units == "words" and unit.split() != [unit]:
            raise ValueError(f"vocabulary: {unit!r} is no word: it is empty or has white space in it")
        if units == "characters" and (len(unit) != 1 or (unit.isspace() and unit != " ")):
            raise ValueError(f"vocabulary: {unit!r} is no single character, or white space other than ' '")
    if units == "characters" and " " not in vocabulary:
        raise ValueError("vocabulary: ' ' is missing, which stands between words")
