"""Held-out splits: the same items every time, none in two splits, and none that moves when a set grows."""

import hashlib
import os
import re
from collections import Counter
from pathlib import Path, PureWindowsPath

import pytest

from vitspeech.data.module import default_root
from vitspeech.data.splits import (
    EXACT,
    hashed_splits,
    percentage,
    relative_name,
    speaker_in_name,
    split_at,
    split_indices,
    stratified_splits,
)

BOTH, ROOT = ("validation", "test"), Path("words")


def which_set(filename: str) -> str:
    """The published function of Speech Commands (README.md of the data set), with a tenth for each held-out split."""
    name = re.sub(r"_nohash_.*$", "", os.path.basename(filename))
    most = 2**27 - 1
    number = (int(hashlib.sha1(name.encode()).hexdigest(), 16) % (most + 1)) * (100.0 / most)
    return "validation" if number < 10 else "test" if number < 20 else "train"


def test_held_out_images_are_the_same_every_time_and_disjoint():
    train, validation = split_indices(101, 17)
    assert len(validation) == 17
    assert sorted(train.tolist() + validation.tolist()) == list(range(101))
    assert validation.tolist() == [8, 11, 14, 21, 23, 32, 41, 55, 57, 69, 73, 76, 79, 83, 84, 91, 99]


def test_one_file_more_of_ten_thousand_moves_no_other():
    names = [f"word{number % 10}/{number:05}.wav" for number in range(10_000)]
    before = hashed_splits(names, BOTH, ROOT)
    assert {
        split: abs(count - expected) < 150
        for (split, count), expected in zip(sorted(Counter(before).items()), (1000, 8000, 1000), strict=True)
    } == {"test": True, "train": True, "validation": True}  # five standard deviations
    for place, added in ((0, "a.wav"), (5000, "word5/extra.wav"), (10_000, "z.wav")):
        after = hashed_splits([*names[:place], added, *names[place:]], BOTH, ROOT)
        assert after[:place] + after[place + 1 :] == before
    assert hashed_splits(names[::-1], BOTH, ROOT) == before[::-1]
    assert hashed_splits(names[3:], BOTH, ROOT) == before[3:]


def test_a_split_that_is_provided_leaves_the_other_as_it_was():
    names = [f"{number}.png" for number in range(1000)]
    both, one = hashed_splits(names, BOTH, ROOT), hashed_splits(names, ("validation",), ROOT)
    assert [split == "validation" for split in one] == [split == "validation" for split in both]
    assert set(one) == {"train", "validation"}


def test_speakers_are_split_as_in_speech_commands():
    speakers = [f"{number:08x}" for number in range(500)]
    assert hashed_splits(speakers, BOTH, ROOT) == [which_set(f"yes/{name}_nohash_1.wav") for name in speakers]
    assert hashed_splits(["eve"] * 3 + speakers, BOTH, ROOT)[:3] == [which_set("eve_nohash_0.wav")] * 3


@pytest.mark.data
def test_the_hash_gives_the_official_lists_of_speech_commands():
    folder = Path(default_root(None), "SpeechCommands/speech_commands_v0.02")
    for split, name in (("validation", "validation_list.txt"), ("test", "testing_list.txt")):
        speakers = {speaker_in_name(line) for line in (folder / name).read_text().split()}
        assert len(speakers) > 100 and {split_at(percentage(speaker), BOTH) for speaker in speakers} == {split}


@pytest.mark.parametrize("count", range(3, 40))
def test_a_small_set_of_speakers_has_one_in_each_split(count):
    names = [f"{number}.wav" for number in range(count)]
    splits = hashed_splits(names, BOTH, ROOT)
    filled = {which_set(name) for name in names}
    # At most one moves for each split that none falls into.
    assert set(splits) == {"train", "validation", "test"}
    assert sum(split != which_set(name) for split, name in zip(splits, names, strict=True)) <= 3 - len(filled)


def named(counts: dict[str, int]) -> tuple[list[str], list[str]]:
    """Names and labels of so many pictures of each label."""
    labels = [label for label, count in counts.items() for _ in range(count)]
    return [f"{label}/IMG_{number:04}.jpg" for number, label in enumerate(labels)], labels


def sizes(counts: dict[str, int], held_out=BOTH) -> dict[str, list[int]]:
    """The sizes of train, validation and test of each label."""
    names, labels = named(counts)
    found = Counter(zip(labels, stratified_splits(names, labels, held_out, ROOT), strict=True))
    return {label: [found[label, split] for split in ("train", "validation", "test")] for label in counts}


def test_each_label_is_split_exactly_with_at_least_one_of_three():
    found = sizes({"common": 300, "some": 9, "three": 3, "two": 2, "one": 1, "half": 25})
    assert found == {
        "common": [240, 30, 30], "some": [7, 1, 1], "three": [1, 1, 1], "two": [2, 0, 0], "one": [1, 0, 0],
        "half": [19, 3, 3],
    }  # fmt: skip
    assert sizes({"common": 300, "two": 2}, ("test",)) == {"common": [270, 0, 30], "two": [1, 0, 1]}
    many = sizes({"many": 10 * EXACT, "few": EXACT - 1})
    assert many["few"] == [1599, 200, 200] and abs(many["many"][1] - EXACT) < 200


@pytest.mark.parametrize("count", [20, 199, EXACT - 1, EXACT + 100])
def test_a_picture_more_moves_at_most_one_other_of_each_split(count):
    names, labels = named({"cat": count, "dog": 30})
    before = dict(zip(names, stratified_splits(names, labels, BOTH, ROOT), strict=True))
    for number in range(30):
        added = f"cat/new_{number}.jpg"
        after = stratified_splits([added, *names[::-1]], ["cat", *labels[::-1]], BOTH, ROOT)
        moved = [name for name, split in zip(names[::-1], after[1:], strict=True) if split != before[name]]
        assert len(moved) <= (2 if count < EXACT - 1 else EXACT // 10) and all(name[:3] == "cat" for name in moved)
        one = stratified_splits([added, *names], ["cat", *labels], ("test",), ROOT)
        assert [split == "test" for split in one[1:]] == [split == "test" for split in after[:0:-1]]


def test_a_set_that_outgrows_exact_sizes_changes_little():
    names, labels = named({"cat": EXACT})
    large = stratified_splits(names, labels, BOTH, ROOT)
    small = stratified_splits(names[1:], labels[1:], BOTH, ROOT)
    assert sum(one != other for one, other in zip(large[1:], small, strict=True)) < EXACT / 50


def test_too_few_items_or_speakers_are_one_clear_line():
    message = r"^words: 2 recordings, images or speakers are too few to hold out some for validation and test; add more"
    for keys in (["a.wav", "b.wav"], ["eve", "adam"] * 50):
        with pytest.raises(ValueError, match=message):
            hashed_splits(keys, BOTH, ROOT)


def test_names_are_the_same_on_every_system():
    assert relative_name(Path("/data/words/yes/0.wav"), Path("/data/words")) == "yes/0.wav"
    assert relative_name(PureWindowsPath(r"C:\words\yes\0.wav"), PureWindowsPath(r"C:\words")) == "yes/0.wav"
    assert relative_name(Path("/elsewhere/0.wav"), Path("/data/words")) == "/elsewhere/0.wav"
    composed, decomposed = "größe.wav", "gro\u0308ße.wav"  # macOS may store the latter
    assert composed != decomposed and percentage(composed) == percentage(decomposed)


def test_a_file_name_may_state_its_speaker():
    assert speaker_in_name("yes/0a7c2a8d_nohash_0.wav") == speaker_in_name("0a7c2a8d_nohash_3.wav") == "0a7c2a8d"
    assert speaker_in_name("a_nohash_b/0.wav") is None and speaker_in_name("0.wav") is None
