"""Checksums of splits, and training items found in a test set."""

import hashlib

import pytest

from vitspeech.checkpoint import leakage
from vitspeech.checkpoint.leakage import add_training_items, check_test_items, split_checksums, training_items
from vitspeech.errors import InputError

NAMES = {"train": ["yes/1.wav", "no/größe.wav"], "test": ["no/2.wav"]}


def test_checksums_are_of_the_sorted_names():
    found = split_checksums(NAMES)
    assert found["train"] == {"items": 2, "sha256": hashlib.sha256("no/größe.wav\nyes/1.wav\n".encode()).hexdigest()}
    assert found == split_checksums(NAMES | {"train": NAMES["train"][::-1]})
    assert found["test"] != split_checksums({"test": ["no/3.wav"]})["test"]


def test_without_names_and_for_very_large_sets_there_is_no_list(tmp_path, monkeypatch):
    monkeypatch.setattr(leakage, "MOST_ITEMS", 10)
    add_training_items([], tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(leakage, "digest", None)  # no time and memory for a list that is not written
        add_training_items(list(map(str, range(11))), tmp_path)
    assert not list(tmp_path.iterdir()) and training_items(tmp_path) == set()
    add_training_items(list(map(str, range(10))), tmp_path)
    assert len(training_items(tmp_path)) == 10


@pytest.mark.parametrize("folder", [".", "model"])
def test_a_test_item_of_training_is_refused_in_a_run_and_in_its_model(tmp_path, folder):
    (tmp_path / "model").mkdir()
    add_training_items(NAMES["train"], tmp_path)
    check_test_items(NAMES, {"splits": split_checksums(NAMES)}, tmp_path / folder)  # nothing is wrong
    overlapping = {"test": ["no/2.wav", "yes/1.wav"]}
    with pytest.raises(
        ValueError,
        match=r"was trained on 1 of the 2 test items \(by their names\), first yes/1\.wav; provide a test set",
    ):
        check_test_items(overlapping, {}, tmp_path / folder)


def test_files_of_another_data_set_with_the_same_names_are_not_refused(tmp_path):
    ours, others, copied = (tmp_path / name / "wavs/001.wav" for name in ("ours", "others", "copied"))
    for file, content in ((ours, b"12345"), (others, b"123"), (copied, b"12345")):
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    names, run = ["wavs/001.wav"], tmp_path
    add_training_items(names, run, tmp_path / "ours")
    card = {"splits": split_checksums({"test": names})}
    check_test_items({"test": names}, card, run, tmp_path / "others")
    for root in ("ours", "copied"):
        with pytest.raises(ValueError, match=r"trained on 1 of the 1 test items \(by their names and sizes\)"):
            check_test_items({"test": names}, card, run, tmp_path / root)


def test_files_are_compared_by_name_with_items_that_are_no_files(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"123")
    add_training_items(["a.wav"], tmp_path)  # whose files are not here
    with pytest.raises(InputError, match=r"trained on 1 of the 1 test items"):
        check_test_items({"test": ["a.wav"]}, {}, tmp_path, tmp_path)


def test_another_test_set_than_the_cards_is_said(tmp_path):
    card = {"splits": split_checksums(NAMES)}
    with pytest.raises(InputError, match=r"not the one of the card \(items: 2 now, 1 then\)"):
        check_test_items({"test": ["a", "b"]}, card, tmp_path, same=True)
    with pytest.warns(UserWarning, match=r"not the one of the card \(items: 2 now, 1 then\)"):
        check_test_items({"test": ["a", "b"]}, {"splits": split_checksums(NAMES)}, tmp_path)
    check_test_items({}, {"splits": split_checksums(NAMES)}, tmp_path)  # generated items have no names
    check_test_items({"test": ["a"]}, {}, tmp_path)  # and early cards no checksums
