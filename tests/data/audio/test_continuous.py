"""Folders of continuous speech."""

import pytest
import soundfile

from vitspeech.data.audio.continuous import list_speech, speech_split, split_of_speaker, without
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
    first, second = list_speech(corpus)
    assert (first.speaker, first.words) == ("19", ("go", "up", "now"))
    assert (second.speaker, second.words) == ("32", ("upon", "a", "time"))


def test_whole_words_are_looked_for(corpus):
    assert [item.speaker for item in without(list_speech(corpus), ["Up"])] == ["32"]


def test_recordings_without_transcripts_have_the_speaker_of_their_folder_or_none(tmp_path):
    for name in ("talk.wav", "anna/one.wav", "anna/two.ogg", "bob_nohash_0.wav"):
        write(tmp_path / name)
    assert {item.file.name: item.speaker for item in list_speech(tmp_path)} == {
        "talk.wav": "talk.wav", "one.wav": "anna", "two.ogg": "anna", "bob_nohash_0.wav": "bob",
    }  # fmt: skip
    assert all(item.words is None for item in without(list_speech(tmp_path), ["go"]))


def test_splits_share_no_speakers(tmp_path):
    for speaker in range(60):
        write(tmp_path / f"{speaker}" / "a.wav")
    recordings = list_speech(tmp_path)
    splits = {split: speech_split(recordings, split) for split in ("train", "validation", "test")}
    assert sum(map(len, splits.values())) == len(speech_split(recordings, "all")) == 60
    assert 5 <= len(splits["validation"]) <= 20 and 10 <= len(splits["test"]) <= 28
    assert all(split_of_speaker(item.speaker) == split for split, items in splits.items() for item in items)


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder of speech"):
        list_speech(tmp_path / "none")
    with pytest.raises(InputError, match="no recordings"):
        list_speech(tmp_path)
    write(tmp_path / "a.wav")
    (tmp_path / "a.trans.txt").write_text("a\n")
    with pytest.raises(InputError, match=r"a\.trans\.txt: line 1: a has no words"):
        list_speech(tmp_path)
