"""Copy, reverse, sort and add sequences of symbols: the smallest tasks in which a decoder has to align with its input.

Symbols are numbers from 0. The plus sign of `add` is the number after the last digit.

Shapes: B sequences, N input symbols, U output symbols.
"""

import hashlib
from collections.abc import Sequence
from random import Random
from typing import Any, Literal, NamedTuple

import numpy
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from vitspeech.data.batches import DrawnItems
from vitspeech.data.module import DataModule
from vitspeech.errors import InputError, check_number

SPLITS = ("test", "validation", *["train"] * 8)  # one tenth of all inputs, one tenth, and the rest


def draw_input(task: str, symbols: int, lengths: tuple[int, int], random: Random) -> list[int]:
    """Draw an input: a length within `lengths` and then its symbols, all equally likely.

    `add` draws two numbers, each with a length of its own and without leading zeros, and a plus sign between them.
    """
    if task == "add":
        return [*draw_number(symbols, lengths, random), symbols, *draw_number(symbols, lengths, random)]
    return [random.randrange(symbols) for _ in range(random.randint(*lengths))]


def draw_number(base: int, lengths: tuple[int, int], random: Random) -> list[int]:
    """Draw the digits of a number; one of several digits does not begin with 0."""
    digits = random.randint(*lengths)
    return [random.randrange(int(place == 0 and digits > 1), base) for place in range(digits)]


def output_of(task: str, inputs: Sequence[int], symbols: int) -> list[int]:
    """The output of an input: itself (`copy`), `reverse`d, `sort`ed, or the sum of its numbers in base `symbols`."""
    if task == "copy":
        return list(inputs)
    if task == "reverse":
        return list(inputs)[::-1]
    if task == "sort":
        return sorted(inputs)
    plus = list(inputs).index(symbols)
    return digits_of(number_of(inputs[:plus], symbols) + number_of(inputs[plus + 1 :], symbols), symbols)


def number_of(digits: Sequence[int], base: int) -> int:
    """The number with these digits."""
    number = 0
    for digit in digits:
        number = base * number + digit
    return number


def digits_of(number: int, base: int) -> list[int]:
    """The digits of a number, at least one."""
    digits = [number % base]
    while number := number // base:
        digits.append(number % base)
    return digits[::-1]


def split_of(task: str, inputs: Sequence[int], symbols: int, drawn_from: int) -> str:
    """The split that an input belongs to, by a hash of the input and of the data set's seed.

    It depends on nothing else, so no input of the test or the validation set is ever drawn in training, however many
    are drawn, and whatever the run's seed. Both orders of the numbers of `add`, which have the same sum, are in the
    same split.
    """
    if task == "add":
        plus = list(inputs).index(symbols)
        first, second = sorted((list(inputs[:plus]), list(inputs[plus + 1 :])))
        inputs = [*first, symbols, *second]
    digest = hashlib.sha256(f"{drawn_from}: {' '.join(map(str, inputs))}".encode()).digest()
    return SPLITS[int.from_bytes(digest[:8], "big") % len(SPLITS)]


EVALUATION_COUNT, LONGER_COUNT = 1000, 500  # sequences of an evaluation set, or all that there are
ATTEMPTS = 50  # draws for each of them: one in ten is of the split
FEWEST_INPUTS = 500  # possible inputs, a tenth of them for the test
MOST_SYMBOLS = LONGEST = 1000
MOST_SETS = 50
FACTORS = (1.25, 1.5, 1.75, 2)  # lengths of the longer test sets, in multiples of the longest training length


class SymbolBatch(NamedTuple):
    """A batch of sequences. In training the inputs are on the device and the rest stays on the host.

    Attributes:
        symbols: Indices of the input symbols, padded with -1 (B, N).
        lengths: Number of input symbols of each sequence (B,).
        units: Label indices of each output, padded with -1 (B, U).
        spans: Always (B, 0, 2): as in `SpeechBatch` if times are not known.
    """

    symbols: Tensor
    lengths: Tensor
    units: Tensor
    spans: Tensor


def collate(inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> SymbolBatch:
    """Pad sequences to a batch, from the indices of their input symbols and of their output labels."""
    symbols, units = (
        pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=-1)
        for rows in (inputs, outputs)
    )
    return SymbolBatch(symbols, (symbols >= 0).sum(1), units, torch.zeros(len(symbols), 0, 2, dtype=torch.long))


class SymbolTasks(DataModule):
    """Sequences of symbols whose output follows from a rule, made on the spot. Batches are (`SymbolBatch`, seed).

    Training sequences are drawn anew in every epoch. A hash of the input and of `drawn_from` assigns each possible
    input to one split (8 : 1 : 1), so training, validation and test sequences are disjoint. Lengths are drawn uniformly
    and then the symbols, so short sequences, of which there are few, are seen most often.

    Args:
        task: `copy`, `reverse`, `sort`, or `add`: two numbers, such as 305+78 to 383.
        symbols: Size of the alphabet; for `add` the base of the numbers.
        shortest: Smallest length of training sequences; for `add` the number of digits of each number.
        longest: Largest length of training sequences, of validation and of the test set `test`.
        longer: Lengths of further test sets `length-N`; for `add` both numbers have N digits. `None` is 1.25, 1.5, 1.75
            and 2 times `longest`; an empty list is none.
        count: Training sequences per epoch. Validation and test have 1,000 each, or all that there are, and each set of
            longer sequences 500.
        drawn_from: Seed of the sequences and of the splits, independent of the run's seed.
        batch: Sequences of an optimizer step, on all devices together.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Attributes:
        symbols: The input symbols; the plus sign is the last one.
        labels: The output symbols.
    """

    items = "sequences"

    def __init__(
        self,
        task: Literal["copy", "reverse", "sort", "add"] = "reverse",
        *,
        symbols: int = 10,
        shortest: int = 1,
        longest: int = 10,
        longer: list[int] | None = None,
        count: int = 10_000,
        drawn_from: int = 0,
        batch: int = 128,
        seed: int = 0,
    ) -> None:
        super().__init__(batch=batch, seed=seed)
        check_number("symbols", symbols, 2, MOST_SYMBOLS)
        check_number("longest", longest, 1, LONGEST)
        check_number("shortest", shortest, 1, longest)
        check_number("count", count, 1)
        if longer is None:
            longer = sorted({round(factor * longest) for factor in FACTORS} - {longest})
        check_number("the number of longer test sets", len(longer), 0, MOST_SETS)
        for length in longer:
            check_number("longer", length, longest + 1, 2 * LONGEST)
        self.task, self.size, self.count, self.drawn_from = task, symbols, count, drawn_from
        self.lengths, self.longer = (shortest, longest), list(longer)
        lengths = range(shortest, longest + 1)
        if task == "add":  # two numbers, which do not begin with 0
            possible = sum((symbols - (length > 1)) * symbols ** (length - 1) for length in lengths) ** 2
        else:
            possible = sum(symbols**length for length in lengths)
        if possible < FEWEST_INPUTS:
            raise InputError(f"there are only {possible} inputs to learn from; use more symbols or longer sequences")
        self.labels = [str(number) for number in range(symbols)]
        self.symbols = [*self.labels, *(["+"] if task == "add" else [])]

    @property
    def preprocessing(self) -> dict[str, Any]:
        return {"symbols": self.symbols}

    def read(self, split: str) -> Dataset:
        return DrawnItems(self.count, self.draw_batch) if split == "train" else self.fixed(split, split, self.lengths)

    def test_sets(self) -> dict[str, "SymbolSequences"]:
        """The test sets by name: `test` with lengths as in training, then `length-N` for each of `longer`."""
        names = {f"length-{length}": (length, length) for length in self.longer}
        return {"test": self.read("test"), **{name: self.fixed(name, "test", pair) for name, pair in names.items()}}

    def fixed(self, name: str, split: str, lengths: tuple[int, int]) -> "SymbolSequences":
        """An evaluation set of different sequences of a split with these lengths."""
        random, found = Random(f"{self.drawn_from} {name}"), {}
        count = EVALUATION_COUNT if name == split else LONGER_COUNT
        for _ in range(ATTEMPTS * count):
            inputs = tuple(draw_input(self.task, self.size, lengths, random))
            if split_of(self.task, inputs, self.size, self.drawn_from) == split:
                found[inputs] = output_of(self.task, inputs, self.size)
            if len(found) == count:
                break
        return SymbolSequences(list(found), list(found.values()))

    def draw_batch(self, count: int, seed: int) -> SymbolBatch:
        """A training batch."""
        random = Random(f"{self.drawn_from} {seed}")
        inputs = [self.draw(random) for _ in range(count)]
        return collate(inputs, [output_of(self.task, row, self.size) for row in inputs])

    def draw(self, random: Random) -> list[int]:
        """Draw a training input: one that belongs to the training split."""
        while True:
            inputs = draw_input(self.task, self.size, self.lengths, random)
            if split_of(self.task, inputs, self.size, self.drawn_from) == "train":
                return inputs

    def text(self, inputs: Sequence[int]) -> str:
        """An input as text: its symbols separated by spaces."""
        return " ".join(self.symbols[symbol] for symbol in inputs)

    def transfer_batch_to_device(
        self, batch: tuple[SymbolBatch, int], device: torch.device, dataloader_idx: int
    ) -> tuple[SymbolBatch, int]:
        """Move the inputs to the device. Lengths and outputs stay on the host, where they are read."""
        sequences, seed = batch
        return sequences._replace(symbols=sequences.symbols.to(device, non_blocking=True)), seed

    def on_after_batch_transfer(self, batch: tuple[SymbolBatch, int], dataloader_idx: int) -> SymbolBatch:
        """The batch; in training, its seed is set."""
        return self.training_batch(*batch) if self.trainer.training else batch[0]

    def training_batch(self, sequences: SymbolBatch, seed: int) -> SymbolBatch:
        """Seed torch and NumPy with the batch's own seed, from which dropout follows."""
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        return sequences

    def normalize(self, inputs: Tensor) -> Tensor:
        """The symbols as they are (B, N)."""
        return inputs


class SymbolSequences(Dataset):
    """Fixed sequences, indexed by whole batches: `sequences[indices, seed]` is (`SymbolBatch`, seed)."""

    def __init__(self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> None:
        self.inputs, self.outputs = inputs, outputs

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[SymbolBatch, int]:
        indices, seed = batch
        places = indices.tolist()
        return collate([self.inputs[place] for place in places], [self.outputs[place] for place in places]), seed
