"""Sequence tasks: what is right, which split an input is in, and that batches follow from their seed alone."""

import pytest
import torch

from vitspeech.data import SymbolTasks
from vitspeech.data.symbols import output_of, split_of

TASKS = ("copy", "reverse", "sort", "add")


def digits(text):
    return [10 if character == "+" else int(character) for character in text]


@pytest.mark.parametrize(
    "task, given, expected",
    [
        ("copy", "3141", "3141"),
        ("reverse", "3140", "0413"),
        ("sort", "31415", "11345"),
        ("add", "305+78", "383"),
        ("add", "99+1", "100"),
        ("add", "0+0", "0"),
        ("add", "7+905", "912"),
    ],
)
def test_outputs_follow_the_rule(task, given, expected):
    assert output_of(task, digits(given), 10) == digits(expected)


@pytest.mark.parametrize("task", TASKS)
def test_no_sequence_is_in_two_splits_however_long_training_lasts(task):
    data = SymbolTasks(task, symbols=3, shortest=2, longest=6, count=300)
    train, seen = data.read("train"), set()
    for seed in range(30):
        batch, _ = train[torch.arange(100), seed]
        seen |= {tuple(row[row >= 0].tolist()) for row in batch.symbols}
    splits = [seen, *(set(data.read(split).inputs) for split in ("validation", "test"))]
    assert len(seen) > 200 and all(len(split) > 20 for split in splits)
    if task == "add":  # nor is a sum whose other order is in training: the plus sign is 3
        numbers = [{frozenset(map(tuple, split_at(row, 3))) for row in split} for split in splits]
        assert not (numbers[0] & numbers[1] or numbers[0] & numbers[2] or numbers[1] & numbers[2])
    assert len(set().union(*splits)) == sum(map(len, splits))


def split_at(row, symbol):
    """The parts of a row before and after a symbol."""
    place = row.index(symbol)
    return row[:place], row[place + 1 :]


@pytest.mark.parametrize("task", TASKS)
def test_evaluation_sets_have_the_lengths_that_they_name_without_repetition(task):
    data = SymbolTasks(task, symbols=20, shortest=2, longest=4, longer=[5, 8])
    sets = data.test_sets()
    assert list(sets) == ["test", "length-5", "length-8"]
    for name, low, high in (("test", 2, 4), ("length-5", 5, 5), ("length-8", 8, 8)):
        inputs = sets[name].inputs
        assert len(set(inputs)) == len(inputs) == (1000 if name == "test" else 500)
        plus = [row.index(20) if task == "add" else len(row) for row in inputs]
        first = [row[:place] for row, place in zip(inputs, plus, strict=True)]
        second = [row[place + 1 :] for row, place in zip(inputs, plus, strict=True) if task == "add"]
        assert {len(number) for number in first + second} == set(range(low, high + 1))
        assert all(number[0] for number in first + second if task == "add")
        assert {split_of(task, row, 20, 0) for row in inputs} == {"test"}


def test_a_batch_follows_from_its_seed_and_pads_at_the_end():
    train = SymbolTasks("add", count=500).read("train")
    (first, _), (again, _), (other, _) = (train[torch.arange(50), seed] for seed in (3, 3, 4))
    assert all(torch.equal(*pair) for pair in zip(first, again, strict=True))
    assert first.symbols.shape != other.symbols.shape or not torch.equal(first.symbols, other.symbols)
    valid = torch.arange(first.symbols.shape[1]) < first.lengths[:, None]
    assert torch.equal(first.symbols >= 0, valid) and (first.symbols[valid] <= 10).all() and len(first.spans) == 50
    for given, output in zip(first.symbols.tolist(), first.units.tolist(), strict=True):
        left, right = "".join("+" if symbol == 10 else str(symbol) for symbol in given if symbol >= 0).split("+")
        assert str(int(left) + int(right)) == "".join(str(unit) for unit in output if unit >= 0)


def test_other_seeds_have_other_splits_and_the_run_seed_does_not_matter():
    seeds = ((0, 0), (0, 1), (1, 0))
    tests = [set(SymbolTasks(drawn_from=drawn, seed=seed).read("test").inputs) for drawn, seed in seeds]
    assert tests[0] == tests[1] and len(tests[0] & tests[2]) < 200


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"symbols": 1}, "symbols=1 is not a number from 2 to 1000"),
        ({"shortest": 11}, "shortest=11 is not a number from 1 to 10"),
        ({"longest": 1001}, "longest=1001 is not a number from 1 to 1000"),
        ({"longer": [12, 10]}, "longer=10 is not a number from 11 to 2000"),
        (
            {"task": "add", "symbols": 2, "longest": 4},
            "there are only 256 inputs to learn from; use more symbols or longer",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        SymbolTasks(**arguments)
