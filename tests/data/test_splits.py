"""Held-out splits: the same items every time, none in two splits."""

from pathlib import Path

import pytest
import torch

from vitspeech.data.splits import split_indices, split_off_tenth


def test_held_out_images_are_the_same_every_time_and_disjoint():
    train, validation = split_indices(101, 17)
    assert len(validation) == 17
    assert sorted(train.tolist() + validation.tolist()) == list(range(101))
    assert torch.equal(validation, split_indices(101, 17)[1])


def test_held_out_leaves_something_to_train_on():
    with pytest.raises(ValueError, match=r"validation=10 is not within 1\.\.9"):
        split_indices(10, 10)


def test_a_tenth_of_the_files_is_split_off_with_its_labels():
    files, labels = [Path(f"{number}.wav") for number in range(53)], torch.arange(53)
    keep, hold_out = split_off_tenth(files, labels)
    assert (len(keep[0]), len(hold_out[0])) == (48, 5)
    for part_files, part_labels in (keep, hold_out):
        assert [int(file.stem) for file in part_files] == part_labels.tolist()
    assert sorted(keep[0] + hold_out[0]) == sorted(files)


def test_one_file_is_too_few_to_split():
    with pytest.raises(ValueError, match=r"a\.wav: too few to hold out a tenth"):
        split_off_tenth([Path("a.wav")], torch.zeros(1))
