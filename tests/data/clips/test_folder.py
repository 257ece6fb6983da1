"""A folder a word, or CSV files: splits, labels, noise, and what is wrong with them."""

import re
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy
import pytest
import soundfile
import torch

from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.folder import AudioFolder, warn_of_words, word_recordings
from vitspeech.data.splits import percentage
from vitspeech.errors import InputError

SAMPLES = 1600
SIZES = (40, 5, 5)


def write(path: Path, value: int, samples: int = SAMPLES, rate_hz: int = 16_000) -> Path:
    """A recording whose every sample is `value`, so that a clip tells which file it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, numpy.full(samples, value, dtype=numpy.int16), rate_hz)
    return path


def fill(folder: Path, words: dict[str, int]) -> Path:
    """So many recordings of each word: 1000, 1001, … of the first, 2000, 2001, … of the second."""
    for place, (word, count) in enumerate(words.items(), 1):
        for number in range(count):
            write(folder / word / f"{number}.wav", 1000 * place + number)
    return folder


def made(root: Path, **arguments) -> AudioFolder:
    data = AudioFolder(str(root), **{"seconds": 0.1} | arguments)
    data.setup("fit")
    return data


def sizes(data: AudioFolder) -> tuple[int, ...]:
    return tuple(len(data.read(split)) for split in ("train", "validation", "test"))


def values(data: AudioFolder, split: str) -> list[int]:
    """The value of each clip of the split, in order."""
    clips = data.read(split).inputs
    assert torch.equal(clips, clips[:, :1].expand(-1, SAMPLES))
    return clips[:, 0].tolist()


def listing(root: Path, name: str, *rows: str, header: str = "path,label", encoding: str = "utf-8") -> None:
    root.mkdir(exist_ok=True)
    (root / name).write_text("\n".join((header, *rows)) + "\n", encoding=encoding)


def test_a_flat_folder_is_split_in_three_without_overlap(tmp_path):
    data = made(fill(tmp_path, {"yes": 30, "zero": 20}))
    assert data.labels == ["yes", "zero"]
    assert sizes(data) == SIZES
    assert len({item.file for items in data.splits.values() for item in items}) == 50
    assert data.train.inputs.shape == (SIZES[0], SAMPLES) and data.train.inputs.dtype == torch.int16


def test_labels_belong_to_their_recordings(tmp_path):
    data = made(fill(tmp_path, {"down": 12, "left": 13, "up": 14}))
    every = []
    for split in ("train", "validation", "test"):
        assert [value // 1000 - 1 for value in values(data, split)] == data.read(split).labels.tolist()
        every += values(data, split)
    assert sorted(every) == [*range(1000, 1012), *range(2000, 2013), *range(3000, 3014)]


@pytest.mark.parametrize("validation", ["validation", "val"])
def test_folders_of_splits_are_used_as_they_are(tmp_path, validation):
    fill(tmp_path / "train", {"no": 5, "yes": 6})
    fill(tmp_path / validation, {"no": 2, "yes": 1})
    fill(tmp_path / "test", {"yes": 4})
    with pytest.warns(UserWarning, match=": test has none of no; add more"):
        data = made(tmp_path)
    assert sizes(data) == (11, 3, 4)
    assert data.read("validation").labels.tolist() == [0, 0, 1]
    assert data.read("test").labels.tolist() == [1] * 4


def test_other_folders_and_files_are_skipped(tmp_path):
    fill(tmp_path, {"no": 5, "yes": 5, "_unsorted": 3, ".cache": 3})
    (tmp_path / "README.md").write_text("words")
    (tmp_path / "yes" / "notes.txt").write_text("said twice")
    (tmp_path / "yes" / "session.wav").mkdir()
    (tmp_path / "yes" / "._0.wav").write_bytes(b"\0\5\x16\7")  # what macOS writes
    write(tmp_path / "yes" / "LOUD.WAV", 2999)
    data = made(tmp_path)
    assert data.labels == ["no", "yes"]
    every = {value for split in ("train", "validation", "test") for value in values(data, split)}
    assert every == {*range(1000, 1005), *range(2000, 2005), 2999}


def test_noise_recordings_are_mixed_in(tmp_path):
    fill(tmp_path, {"no": 5, "yes": 5})
    write(tmp_path / "_background_noise_" / "rain.wav", 300, samples=1000)
    write(tmp_path / "_background_noise_" / "fan.flac", 200, samples=700)
    (tmp_path / "_background_noise_" / "README.md").write_text("noise")
    always = WaveformAugment(shift_ms=0, speed=0, noise_prob=1, noise_snr_db=(0, 0), synthetic=0, gain_db=0)
    data = made(tmp_path, augment=always)
    assert data.noise.dtype == torch.int16 and data.noise.tolist() == [200] * 700 + [300] * 1000
    clips, _ = data.training_batch(torch.full((3, SAMPLES), 4096, dtype=torch.int16), torch.zeros(3), seed=0)
    # As strong as the clip on average, and in two steps at the ratio of the recordings.
    noise = clips - 0.125
    torch.testing.assert_close(noise.square().mean(1).sqrt(), torch.full((3,), 0.125))
    torch.testing.assert_close(noise[:, -1] / noise[:, 0], torch.full((3,), 1.5))


def test_unusable_noise_is_reported_before_training(tmp_path):
    noise = write(fill(tmp_path, {"no": 5, "yes": 5}) / "_background_noise_" / "rain.wav", 300, samples=1599)
    with pytest.raises(ValueError, match=r"_background_noise_: 0\.0999 s in all, below a clip's 0\.1 s"):
        made(tmp_path)
    noise.write_bytes(b"")
    with pytest.raises(ValueError, match=r"rain\.wav: empty"):
        made(tmp_path)


def test_broken_recordings_of_all_splits_are_named_at_once(tmp_path):
    for split in ("train", "validation", "test"):
        fill(tmp_path / split, {"no": 5, "yes": 4})
    broken = [tmp_path / "train/no/3.wav", tmp_path / "train/yes/0.wav", tmp_path / "test/no/1.wav"]
    for file in broken:
        file.write_bytes(file.read_bytes()[:999])
    with pytest.raises(InputError, match=r"2 of 9 files of train .* 1 of 9 files of test") as caught:
        made(tmp_path)
    assert all(f"{file}: truncated" in str(caught.value) for file in broken) and "\n" not in str(caught.value)
    with pytest.warns(UserWarning, match="are left out"):
        assert sizes(made(tmp_path, broken=0.3)) == (7, 9, 8)


def test_a_wrong_folder_is_reported_with_the_reason(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder"):
        _ = AudioFolder(str(tmp_path / "nowhere")).labels
    with pytest.raises(FileNotFoundError, match=f"{tmp_path.name}: no class folders"):
        made(tmp_path)
    fill(tmp_path / "train", {"no": 5})
    (tmp_path / "train" / "hollow").mkdir()
    with pytest.raises(ValueError, match=r"hollow: no files of this class \(\.flac, .*\.wav\)"):
        made(tmp_path)
    (tmp_path / "train" / "hollow").rmdir()
    (tmp_path / "test").mkdir()
    with pytest.raises(FileNotFoundError, match="test: no class folders"):
        made(tmp_path)
    fill(tmp_path / "test", {"maybe": 1})
    with pytest.raises(ValueError, match="maybe: training does not have the label 'maybe'; known: no"):
        made(tmp_path)


def test_a_word_whose_recordings_are_all_held_out_is_refused(tmp_path):
    held_out = next(name for name in map(str, range(99)) if 10 <= percentage(name) < 20)  # a speaker of the test
    for speaker in (*map(str, range(20)), held_out):
        write(tmp_path / "no" / f"{speaker}_nohash_0.wav", 1000)
    write(tmp_path / "maybe" / f"{held_out}_nohash_0.wav", 3000)
    with (
        pytest.warns(UserWarning, match="train has none of maybe; validation has none of maybe"),
        pytest.raises(InputError, match="all files of maybe are held out"),
    ):
        made(tmp_path)


def test_few_recordings_of_chosen_words_are_counted(tmp_path):
    splits = word_recordings(fill(tmp_path, {"no": 9, "a": 1, "b": 1}))
    warn_of_words(splits, ["no"])  # no warning: it would be an error
    with pytest.warns(UserWarning, match=r"^no recordings of yes, on; only synthesized clips"):
        warn_of_words(splits, ["no", "yes", "on"])
    with pytest.raises(InputError, match=r"no: 'no' is not 'No'; give both the same capital letters"):
        warn_of_words(splits, ["No"])


@pytest.mark.parametrize("speaker", ["anna_nohash_", "anna "])
def test_every_word_of_ten_recordings_is_in_every_split(tmp_path, speaker):
    words = ["lamp", "heating", "curtain", "music", "kitchen"]
    for word in words:
        for number in range(10):
            write(tmp_path / word / f"{speaker}{number}.wav", 1000)
    with pytest.warns(UserWarning, match="too few speakers") if "_nohash_" in speaker else nullcontext():
        splits = word_recordings(tmp_path)
    for split, count in (("train", 8), ("validation", 1), ("test", 1)):
        assert Counter(item.label for item in splits[split]) == dict.fromkeys(words, count)


def test_one_recording_that_states_its_speaker_does_not_decide_the_splits(tmp_path):
    fill(tmp_path, {"no": 40, "yes": 4})
    write(tmp_path / "no/eve_nohash_0.wav", 3000)
    with pytest.warns(UserWarning, match="44 of 45 files state no speaker, so single files are held out"):
        splits = word_recordings(tmp_path)
    counts = {split: Counter(item.label for item in items) for split, items in splits.items()}
    assert [counts[split]["yes"] for split in ("train", "validation", "test")] == [2, 1, 1]


@pytest.mark.parametrize("name", ["Test", "valid", "VAL"])
def test_a_folder_that_seems_to_be_a_split_is_named(tmp_path, name):
    fill(tmp_path / "train", {"no": 5, "yes": 6})
    fill(tmp_path / name, {"no": 5, "yes": 6})
    (tmp_path / "testament").mkdir()
    with pytest.warns(UserWarning, match=f"{name} not used; splits are"):
        word_recordings(tmp_path)


@pytest.mark.parametrize("validation", ["validation.csv", "val.csv"])
def test_csv_files_say_who_is_in_which_split_and_folders_nothing(tmp_path, validation):
    fill(tmp_path, {"train": 3, "test": 3, "a, b": 2})
    (tmp_path / "hollow").mkdir()
    # Columns in any order and more of them, Excel's mark, its line ends, blank lines, spaces, a comma in a name.
    rows = ("yes,train/0.wav,Eve", "", " no , test/0.wav , Eve", 'no, "a, b/1.wav",Adam\r')
    listing(tmp_path, "train.csv", *rows, header="label,path,speaker\r", encoding="utf-8-sig")
    listing(tmp_path, validation, "train/2.wav,no")
    listing(tmp_path, "test.csv", "train/1.wav,yes", f"{tmp_path}/test/1.wav,no")
    with pytest.warns(UserWarning, match=": validation has none of yes; add more"):
        data = made(tmp_path)
    assert data.labels == ["no", "yes"]
    assert values(data, "train") == [1000, 2000, 3001] and data.train.labels.tolist() == [1, 0, 0]
    assert values(data, "validation") == [1002] and data.validation.labels.tolist() == [0]
    assert values(data, "test") == [1001, 2001] and data.read("test").labels.tolist() == [1, 0]


def test_recordings_keep_their_splits_when_others_are_added(tmp_path):
    root = fill(tmp_path, {"no": 20, "yes": 30})
    data = made(root)
    before = data.item_names()
    assert all((data.item_root / name).is_file() for names in before.values() for name in names)
    write(root / "no" / "000.wav", 5000)
    fill(root, {"aloe": 4})
    after = made(root).item_names()
    assert sum(len(set(before[split]) - set(after[split])) for split in before) <= 2
    assert sum(map(len, after.values())) == 55


@pytest.mark.parametrize("column", [True, False])
def test_speakers_stay_together_in_a_column_or_in_file_names(tmp_path, column):
    speakers = [f"{speaker:08x}" for speaker in range(12)]
    names = [f"{word}/{name}_nohash_{take}.wav" for name in speakers for word in ("no", "yes") for take in range(3)]
    names = [name.replace("_nohash_", "-") for name in names] if column else names
    for number, name in enumerate(names):
        write(tmp_path / name, 100 + number)
    if column:
        rows = (f"{name},{name.split('/')[0]},{name.split('/')[1].split('-')[0]}" for name in names)
        listing(tmp_path, "train.csv", *rows, header="path,label,speaker")
    data = made(tmp_path)
    found = {split: set(data.read(split).speakers) for split in ("train", "validation", "test")}
    assert sorted(name for some in found.values() for name in some) == speakers and all(found.values())
    assert len(data.read("test")) == 6 * len(found["test"])


@pytest.mark.parametrize(
    "name, content, reason",
    [
        ("train", "path;label\nno/0.wav;no\n", "line 1: no column 'path'; the header must name path and label"),
        ("train", "path,label\n", "no rows below the header"),
        ("test", "path,label\n,no\n", "line 2: empty path"),
        ("train", "path,label\nno/0.wav,take, two\n", "line 2: 3 fields, but 2 in the header; quote fields"),
        ("train", 'path,label\n"no/0.wav,no\nno/1.wav,no\n', "line 2: unexpected end of data (a quote that is not"),
        ("train", "path,label\nno/0.wav,no\nno/1.wav,größe\n", "line 3: not UTF-8"),
        (
            "test",
            "path,label\nno/3.wav,no\nyes/0.wav,yes\n",
            "line 3: training does not have the label 'yes'",
        ),
        ("train", "path,label\nno/0.wav,no\nno/1.wav,no\nno/7.wav,no\n", "line 4: {root}/no/7.wav does not exist"),
        (
            "test",
            "path,label\nno/../no/1.wav,no\n",
            "line 2: {root}/no/../no/1.wav is listed twice, first in {root}/train.csv: line 3",
        ),
    ],
)
def test_an_error_in_a_csv_is_reported_with_file_and_line(tmp_path, name, content, reason):
    fill(tmp_path, {"no": 4, "yes": 1})
    for split, rows in {"train": ("no/0.wav,no", "no/1.wav,no"), "validation": ["no/2.wav,no"]}.items():
        listing(tmp_path, f"{split}.csv", *rows)
    file = tmp_path / f"{name}.csv"
    file.write_text(content, encoding="latin-1")
    AudioFolder(str(tmp_path))  # says nothing yet: the command line would bury it under what it says of the config
    with pytest.raises(
        (ValueError, FileNotFoundError), match=re.escape(reason.format(root=tmp_path, file=file))
    ) as caught:
        made(tmp_path)
    assert str(caught.value).startswith(f"{file}: ") and "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:too few for each split")  # by speaker
@pytest.mark.parametrize("name", ["{number}.wav", "p{number}_nohash_0.wav"])
@pytest.mark.parametrize(("lamps", "held_out"), [(19, 0), (20, 1)])
def test_keywords_of_few_recordings_have_none_in_the_test(tmp_path, name, lamps, held_out):
    for word, count in (("hey_lamp", lamps), ("door", 10), ("other", 60)):
        (tmp_path / word).mkdir()
        for number in range(count):
            (tmp_path / word / name.format(number=number)).touch()
    plain, splits = word_recordings(tmp_path), word_recordings(tmp_path, ["hey lamp", "door"])
    tested = Counter(item.label for item in splits["test"])
    assert tested["other"] == Counter(item.label for item in plain["test"])["other"] > 0
    assert (tested["hey lamp"] + tested["door"] >= held_out) and (held_out or tested.keys() == {"other"})
    assert sum(map(len, splits.values())) == lamps + 70 and len({item.file for item in splits["train"]}) == len(
        splits["train"]
    )
    assert len(splits["validation"]) == len(plain["validation"])
    if not held_out:
        with pytest.warns(UserWarning, match="fewer than 20 .*: the test has none of them, at most synthesized"):
            warn_of_words(splits, ["hey lamp", "door"])


def test_a_test_without_a_word_is_named_if_there_are_many_or_it_is_the_users(tmp_path):
    for split in ("train", "validation", "test"):
        for word in ("lamp", "door")[: 1 if split == "test" else 2]:
            (tmp_path / split / word).mkdir(parents=True)
            (tmp_path / split / word / f"{split}.wav").touch()
    with pytest.warns(UserWarning, match="test has none of door"):
        warn_of_words(word_recordings(tmp_path, ["lamp", "door"]), ["lamp", "door"])
