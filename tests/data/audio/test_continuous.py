"""Folders of continuous speech."""

import pytest
import soundfile
import torch

from vitspeech.data.audio.continuous import (
    Speech,
    list_speech,
    occurrences,
    read_without,
    speech_split,
    split_of_speaker,
)
from vitspeech.errors import InputError


def write(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(file, [0.0] * 160, 16_000)


@pytest.fixture
def corpus(tmp_path):
    """Two chapters in LibriSpeech's layout."""
    for name, text in (("19-198-0000", "GO UP NOW"), ("32-4137-0001", "UPON A TIME")):
        speaker, chapter, _ = name.split("-")
        write(tmp_path / speaker / chapter / f"{name}.flac")
        (tmp_path / speaker / chapter / f"{speaker}-{chapter}.trans.txt").write_text(f"{name} {text}\n")
    return tmp_path


def test_librispeech_is_read_with_its_speakers_and_transcripts(corpus):
    (corpus / "19" / "198" / "._19-198.trans.txt").write_bytes(b"\xff")  # as macOS writes them
    first, second = list_speech(corpus)
    assert (first.speaker, first.words) == ("19", ("go", "up", "now"))
    assert (second.speaker, second.words) == ("32", ("upon", "a", "time"))


def test_dates_are_no_speakers(tmp_path):
    write(tmp_path / "anna" / "15-01-2024.wav")
    assert list_speech(tmp_path)[0].speaker == "anna"


@pytest.mark.parametrize(
    ("text", "label", "expected"),
    [
        ("take one more", "one", ["one"]),
        ("take one's", "one", ["one"]),
        ("the one-stop shop", "Stop", ["stop"]),
        ("one by one", "one", ["one", "one"]),
        ("someone", "one", []),
        ("hey big computer", "hey computer", []),
        ("say hey computer now", "hey computer", ["hey computer"]),
        ("", "one", []),
        ("one", "?", []),
    ],
)
def test_transcripts_are_searched_for_whole_words(text, label, expected):
    places = occurrences(text.split(), label)
    assert [text[round(begin * len(text)) : round(end * len(text))] for begin, end in places] == expected
    assert not occurrences(None, label)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a"], [(0, 20)]),
        (["up"], [(0, 8.5), (13.5, 20)]),  # letters 21 and 22 of 40, from 10.5 to 11.5 s
        (["UP", "yes"], [(3.5, 8.5), (13.5, 20)]),
        (["up", "ten"], [(0, 8.5), (13.5, 16.5)]),
        (["is", "up"], [(5, 8.5), (13.5, 20)]),
        (["is", "xxxxxxxxxx"], [(12, 20)]),  # nothing before 0 s
    ],
)
def test_speech_is_read_without_words_and_what_is_around_them(tmp_path, words, expected):
    text = "yes is go xxxxxxxxxx up xxxxxxxxxxxx ten"
    assert len(text) == 40
    ramp = torch.arange(20 * 16_000, dtype=torch.int32).div(16, rounding_mode="floor").to(torch.int16)
    soundfile.write(tmp_path / "a.wav", ramp.numpy(), 16_000)
    read = read_without(Speech(tmp_path / "a.wav", "a", tuple(text.split())), words)
    stretches = [ramp[round(first * 16_000) : round(last * 16_000)] for first, last in expected]
    assert read.equal(torch.cat(stretches))


def test_recordings_without_transcripts_have_the_speaker_of_their_folder_or_none(tmp_path):
    for name in ("talk.wav", "anna/one.wav", "anna/two.ogg", "bob_nohash_0.wav"):
        write(tmp_path / name)
    assert {item.file.name: item.speaker for item in list_speech(tmp_path)} == {
        "talk.wav": "talk.wav", "one.wav": "anna", "two.ogg": "anna", "bob_nohash_0.wav": "bob",
    }  # fmt: skip
    assert all(item.words is None for item in list_speech(tmp_path))


def test_splits_share_no_speakers(tmp_path):
    for speaker in range(60):
        write(tmp_path / f"{speaker}" / "a.wav")
    recordings = list_speech(tmp_path)
    splits = {split: speech_split(recordings, split) for split in ("train", "validation", "test")}
    assert sum(map(len, splits.values())) == len(speech_split(recordings, "all")) == 60
    assert 5 <= len(splits["validation"]) <= 20 and 10 <= len(splits["test"]) <= 28
    assert all(split_of_speaker(item.speaker) == split for split, items in splits.items() for item in items)


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none: no such file or folder"):
        list_speech(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no recording in this folder"):
        list_speech(tmp_path)
    write(tmp_path / "a.wav")
    (tmp_path / "a.trans.txt").write_text("a\n")
    with pytest.raises(InputError, match=r"a\.trans\.txt: line 1: a has no words"):
        list_speech(tmp_path)
