"""The tasks on sequences of symbols: how inputs are drawn, what their outputs are, and which split an input belongs to.

Symbols are numbers from 0. The plus sign of `add` is the number after the last digit.
"""

import hashlib
from collections.abc import Sequence
from random import Random

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
