"""Speech Commands: a small made set whose clips say which file they are, every error, and the real set's lists."""

import os
import shutil
import tarfile
from pathlib import Path

import numpy
import pytest
import soundfile
import torch
from torchaudio.datasets import SPEECHCOMMANDS

from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.silence import replace_silence, shifted
from vitspeech.data.clips.speech_commands import FOLDER, URL, SpeechCommands
from vitspeech.data.module import default_root

SECOND = 16_000
SPLITS = ("train", "validation", "test")
NOISES = {"a_fan.wav": 11, "b_tap.wav": 13}  # seconds
# Clips of each word in training, validation and test.
COUNTS = {"cat": (5, 2, 1), "no": (11, 3, 5), "up": (7, 2, 3), "yes": (13, 5, 2), "zero": (3, 1, 1)}


def value(word: str, number: int) -> int:
    """What every sample of a word's clip is, so that a clip tells which file it was."""
    return 1000 * (1 + list(COUNTS).index(word)) + 10 * number


def word_of(sample: int) -> str:
    return list(COUNTS)[sample // 1000 - 1]


def recording(seconds: int) -> numpy.ndarray:
    """Noise that tells its time at any loudness: first rising above zero, then below zero, then of both signs."""
    samples = numpy.linspace(9000, 18_000, seconds * SECOND)
    samples[round(0.8 * len(samples)) :] *= -1
    samples[round(0.9 * len(samples)) :: 2] *= -1
    return samples.round().astype(numpy.int16)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    folder = root / FOLDER / URL
    lists = {"validation": [], "test": []}
    for word, counts in COUNTS.items():
        (folder / word).mkdir(parents=True)
        splits = [split for split, count in zip(SPLITS, counts, strict=True) for _ in range(count)]
        for number, split in enumerate(splits):
            name = f"{word}/{number:08x}_nohash_0.wav"
            soundfile.write(folder / name, numpy.full(1601, value(word, number), dtype=numpy.int16), SECOND)
            if split != "train":
                lists[split].append(name)
    (folder / "validation_list.txt").write_text("\n".join(lists["validation"]) + "\n")
    (folder / "testing_list.txt").write_text("\n".join(lists["test"]) + "\n")
    (folder / "_background_noise_").mkdir()
    for name, seconds in NOISES.items():
        soundfile.write(folder / "_background_noise_" / name, recording(seconds), SECOND)
    return root


@pytest.fixture
def root(made_once, tmp_path) -> Path:
    """A copy of the made set that a test may break; files are links, so one is replaced and never written to."""
    shutil.copytree(made_once, tmp_path / "made", copy_function=os.link)
    return tmp_path / "made"


def broken(path: Path, content: bytes = b"no recording") -> Path:
    path.unlink()
    path.write_bytes(content)
    return path


def listing(root: Path, name: str, *lines: str) -> Path:
    return broken(root / FOLDER / URL / name, "".join(f"{line}\n" for line in lines).encode())


def made(root: Path, words=("yes", "no"), **arguments) -> SpeechCommands:
    data = SpeechCommands(words, str(root), **{"batch": 3} | arguments)
    data.setup("fit")
    return data


def values(data: SpeechCommands, split: str, label: str | None = None) -> list[int]:
    """The value of each clip of the split that is a recording of a word; each is in the middle of a second."""
    items = data.read(split)
    found = []
    for clip, number in zip(items.inputs, items.labels.tolist(), strict=True):
        if data.labels[number] != "silence" and label in (None, data.labels[number]):
            assert (clip != 0).nonzero().flatten().tolist() == list(range(7199, 7199 + 1601))
            assert len(clip[7199 : 7199 + 1601].unique()) == 1
            found.append(clip[SECOND // 2].item())
    return found


def silences(data: SpeechCommands, split: str) -> torch.Tensor:
    items = data.read(split)
    return items.inputs[items.labels == data.labels.index("silence")]


def counts(data: SpeechCommands, split: str) -> list[int]:
    return torch.bincount(data.read(split).labels, minlength=len(data.labels)).tolist()


def expected(word: str, split: str) -> list[int]:
    """The values of a word's clips of a split."""
    place, numbers = SPLITS.index(split), COUNTS[word]
    return [value(word, number) for number in range(sum(numbers[:place]), sum(numbers[: place + 1]))]


@pytest.mark.parametrize("words", [("yes", "no"), ("zero", "yes", "cat")])
def test_splits_are_those_of_the_lists_and_labels_belong_to_their_clips(made_once, words):
    data = made(made_once, words)
    for split in SPLITS:
        assert sorted(values(data, split)) == sorted(clip for word in words for clip in expected(word, split))
        for word in words:
            assert values(data, split, word) == expected(word, split)
    assert torch.equal(data.train.inputs, data.read("train").inputs) and data.train.inputs.dtype == torch.int16
    assert torch.equal(data.validation.inputs, data.read("validation").inputs)


# Of yes and no there are 24, 8 and 7 clips; of the other words 15, 5 and 5.
@pytest.mark.parametrize(
    "unknown, silence, train, validation, test",
    [
        (0.25, 0.5, [6, 12], [2, 4], [2, 4]),  # 0.25 and 0.5 of 7 are 1.75 and 3.5
        (0.5, 0.125, [12, 3], [4, 1], [4, 1]),
        (3, 2, [15, 48], [5, 16], [5, 14]),  # all the other words there are
    ],
)
def test_unknown_and_silence_are_shares_of_the_words_clips(made_once, unknown, silence, train, validation, test):
    data = made(made_once, unknown=unknown, silence=silence)
    assert counts(data, "train") == [13, 11, *train]
    assert counts(data, "validation") == [5, 3, *validation]
    assert counts(data, "test") == [2, 5, *test]


def test_unknown_clips_are_other_words_of_the_same_split_each_at_most_once(made_once):
    data = made(made_once, unknown=0.5)
    for split in SPLITS:
        unknown = values(data, split, "unknown")
        others = {clip for word in ("cat", "up", "zero") for clip in expected(word, split)}
        assert set(unknown) <= others and len(set(unknown)) == len(unknown)
    assert {word_of(clip) for clip in values(data, "train", "unknown")} == {"cat", "up", "zero"}


def test_silence_is_cut_from_the_splits_own_part_of_the_noise(made_once):
    data = made(made_once, silence=3)
    train, validation, test = (silences(data, split) for split in SPLITS)
    assert (len(train), len(validation), len(test)) == (72, 24, 21)
    assert (train >= 0).all() and (train > 0).any(1).all()
    assert (validation <= 0).all() and (validation < 0).any(1).all()
    assert (test[:, ::2].sign() == -test[:, 1::2].sign()).all() and test.any(1).all()


def test_silence_is_cut_from_all_over_the_noise_at_levels_from_minus_60_to_minus_15_dbfs(made_once):
    cuts = silences(made(made_once, silence=3), "train").double()
    # Noise rises evenly from 9000 to 18000, so the rise over a cut, as a share of its start, tells where it was cut.
    starts = (cuts[:, 0] / (cuts[:, -1] - cuts[:, 0]))[cuts[:, 0] > 1000]
    assert len(starts) > 20 and starts.max() - starts.min() > 5
    for split in SPLITS:
        dbfs = levels(silences(made(made_once, silence=9), split))
        assert -60.2 < dbfs.min() < -57 and -18 < dbfs.max() < -14.9 and abs(dbfs.mean() + 37.5) < 4


def levels(clips: torch.Tensor) -> torch.Tensor:
    """The root mean square of each clip, in decibels below full scale."""
    waveforms = clips.double() / (32768 if clips.dtype == torch.int16 else 1)
    return 10 * waveforms.square().mean(1).log10()


def test_silence_is_new_noise_of_any_level_down_to_zeros_in_every_training_batch(made_once):
    data = made(made_once, silence=20, augment=WaveformAugment(0, 0, noise_prob=0, gain_db=0))
    inputs, labels = data.train.inputs, data.train.labels
    silent = labels == data.labels.index("silence")
    one, two = (data.training_batch(inputs, labels, seed)[0] for seed in (1, 2))
    assert not (one[silent] == two[silent]).all(1).all() and torch.equal(data.training_batch(inputs, labels, 1)[0], one)
    assert torch.equal(data.train.inputs, inputs)
    recorded = (one[silent] > 0).all(1)  # as every sample of the training part of the recordings is
    assert 0.3 < recorded.float().mean() < 0.7
    shift = (one - inputs / 32768)[~silent]  # of words: a constant, in every tenth clip
    assert (
        torch.allclose(shift, shift[:, :1].expand_as(shift), atol=1e-7)
        and 0 < shift.count_nonzero() < shift.numel() / 2
    )

    torch.manual_seed(0)
    clips = replace_silence(inputs, silent, data.augment, data.noise, SECOND)
    assert torch.equal(clips[~silent], inputs[~silent])
    dbfs = levels(clips[silent])
    assert 0.18 < (dbfs < -60.5).float().mean() < 0.32 and 0.02 < dbfs.isinf().float().mean() < 0.15  # no level: zeros
    assert -18 < dbfs.max() < -14.9


def test_every_tenth_clip_is_shifted_by_a_constant():
    torch.manual_seed(0)
    offsets = shifted(torch.zeros(2000, 3))
    assert torch.equal(offsets, offsets[:, :1].expand(-1, 3))
    assert 150 < offsets[:, 0].count_nonzero() < 250 and 0.25 < offsets.max() < 0.3 and -0.3 < offsets.min() < -0.25


def test_each_clip_has_its_speaker_and_each_cut_of_silence_its_recording(made_once):
    data = SpeechCommands(["no", "yes"], str(made_once), unknown=0.5, silence=2)
    test = data.read("test")
    for clip, label, speaker in zip(test.inputs, test.labels.tolist(), test.speakers, strict=True):
        if data.labels[label] == "silence":
            assert speaker in ("a_fan", "b_tap")
        else:
            sample = int(clip.max())
            assert int(speaker, 16) == sample % 1000 // 10
    assert {speaker for speaker in test.speakers if not speaker.startswith("0")} == {"a_fan", "b_tap"}


def test_the_words_heard_as_unknown_are_those_of_the_chosen_clips(made_once):
    data = SpeechCommands(["no", "yes"], str(made_once), unknown=0.3)
    names = data.item_names()["train"]
    assert data.heard_words == sorted({name.partition("/")[0] for name in names} - {"no", "yes"}) != []
    assert SpeechCommands(["no", "yes"], str(made_once)).heard_words == []


def test_augmentation_mixes_in_only_the_training_part_of_the_noise(made_once):
    for silence in (0, 0.5):
        data = made(made_once, silence=silence)
        parts = [recording(seconds)[: round(0.8 * seconds * SECOND)] for seconds in NOISES.values()]
        assert data.noise.tolist() == numpy.concatenate(parts).tolist()
        assert data.noise.min() > 0


def test_what_is_drawn_is_the_same_whatever_the_seed(made_once):
    one, other = (made(made_once, unknown=0.5, silence=0.5, seed=seed) for seed in (0, 7))
    for split in SPLITS:
        assert torch.equal(one.read(split).inputs, other.read(split).inputs)
        assert torch.equal(one.read(split).labels, other.read(split).labels)
    assert torch.equal(one.noise, other.noise)


def test_a_missing_set_is_reported_with_the_search_path_and_how_to_get_it(tmp_path):
    message = rf"^{tmp_path}/{FOLDER}/{URL}: .*VITSPEECH_DATA or --data\.root .*--data\.download true"
    for look in (SpeechCommands.prepare_data, SpeechCommands.setup, lambda data: data.read("test")):
        with pytest.raises(FileNotFoundError, match=message):
            look(SpeechCommands(root=str(tmp_path)))


def test_a_download_is_fetched_once_and_only_when_asked_for(made_once, tmp_path, monkeypatch):
    fetched = []

    def fetch(url, archive, hash_prefix):
        fetched.append(url)
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(made_once / FOLDER / URL, ".")

    monkeypatch.setattr("torchaudio.datasets.speechcommands.download_url_to_file", fetch)
    root = tmp_path / "new" / "folder"
    with pytest.raises(FileNotFoundError):
        SpeechCommands(("yes",), str(root)).prepare_data()
    for _ in range(2):
        data = SpeechCommands(("yes",), str(root), download=True, batch=3)
        data.prepare_data()
    assert [url.rpartition("/")[2] for url in fetched] == ["speech_commands_v0.02.tar.gz"]
    assert values(data, "test") == expected("yes", "test")


@pytest.mark.parametrize("name", ["validation_list.txt", "testing_list.txt"])
def test_a_list_that_names_a_missing_clip_is_an_error_that_names_it(root, name):
    path = listing(root, name, "yes/00000000_nohash_0.wav", "no/00000000_nohash_0.wav", "no/ffff_nohash_0.wav")
    with pytest.raises(ValueError, match=f"^{path}: no/ffff_nohash_0.wav does not exist"):
        made(root)


def test_a_missing_word_folder_is_an_error_that_names_it(root):
    with pytest.raises(FileNotFoundError, match=rf"^{root / FOLDER / URL}: no clips \(\.wav\) of dog"):
        made(root, ("yes", "dog"))


# Validation and test have a tenth of every recording: of nine seconds less than a clip.
@pytest.mark.parametrize("seconds, silence", [(9, 0.5), (1, 0)])
def test_noise_shorter_than_its_parts_need_is_an_error_that_names_it(root, seconds, silence):
    folder = root / FOLDER / URL / "_background_noise_"
    for file in folder.iterdir():
        file.unlink()
    soundfile.write(folder / "a_fan.wav", recording(seconds), SECOND)
    with pytest.raises(ValueError, match=f"^{folder}"):
        made(root, silence=silence)


TWELVE = "bed cat happy down go left right up eight one zero five".split()


@pytest.mark.data
def test_the_clips_of_the_real_set_are_torchaudios():
    data = SpeechCommands(TWELVE)
    data.prepare()
    for split, subset in {"train": "training", "validation": "validation", "test": "testing"}.items():
        theirs = SPEECHCOMMANDS(default_root(None), subset=subset)._walker
        ours = [str(file) for file in data.files[split]]
        # torchaudio leaves out of training what has no speaker in its name.
        assert [file for file in ours if split != "train" or "_nohash_" in file] == theirs and theirs
    spoken = [sum(file.parent.name in TWELVE for file in data.files[split]) for split in SPLITS]
    assert spoken == [17087, 2359, 3531]


@pytest.mark.parametrize("split", SPLITS)
def test_word_clips_are_the_splits_recordings_of_the_words_as_long_as_they_are(made_once, split):
    clips = SpeechCommands(("yes", "no"), str(made_once), unknown=0.5, silence=0.5).word_clips(split)
    found = {word: [clip for clip in clips if clip.word == word] for word in ("yes", "no")}
    assert len(clips) == len(found["yes"]) + len(found["no"])
    for word, said in found.items():
        assert [clip.samples.tolist() for clip in said] == [[value] * 1601 for value in expected(word, split)]
        assert all((clip.samples.dtype, clip.start, clip.end) == (numpy.int16, 0, 1601) for clip in said)


def test_backgrounds_are_the_recordings_apart_in_time(made_once):
    data = SpeechCommands(("yes",), str(made_once))
    parts = {split: data.backgrounds(split) for split in SPLITS}
    for name, seconds in NOISES.items():
        ends = [0, round(0.8 * seconds * SECOND), round(0.9 * seconds * SECOND), seconds * SECOND]
        for split, start, end in zip(SPLITS, ends, ends[1:], strict=False):
            assert parts[split][Path(name).stem].tolist() == recording(seconds)[start:end].tolist()
    assert all(list(found) == ["a_fan", "b_tap"] for found in parts.values())


def test_without_recordings_of_noise_the_backgrounds_are_pink_noise_apart_in_time(root):
    shutil.rmtree(root / FOLDER / URL / "_background_noise_")
    data = SpeechCommands(("yes",), str(root))
    parts = [data.backgrounds(split) for split in SPLITS]
    assert [{name: len(noise) for name, noise in found.items()} for found in parts] == [
        {"hiss": 8 * SECOND},
        {"hiss": SECOND},
        {"hiss": SECOND},
    ]
    assert torch.equal(torch.cat([found["hiss"] for found in parts]), pink_noise(SECOND))
