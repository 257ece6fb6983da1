"""Keywords among everything else: what is read, what is held out, and every error."""

import shutil

import numpy
import pytest
import soundfile
import torch

from vitspeech.data import Keywords
from vitspeech.data.clips.silence import read_noise
from vitspeech.data.clips.spoken_words import synthesize_split
from vitspeech.data.splits import percentage
from vitspeech.errors import InputError

SECOND = 16_000
WORDS = {"go": 1000, "stop": 2000, "cat": 3000, "dog": 4000}  # the value of each word's samples


def speakers_of(split, count):
    """Speakers whose hash puts them into a split of recordings."""
    low, high = {"validation": (0, 10), "test": (10, 20), "train": (20, 100)}[split]
    return [name for name in (f"{number:x}" for number in range(1000)) if low <= percentage(name) < high][:count]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("words")
    for word, value in WORDS.items():
        (root / word).mkdir()
        for split, count in (("train", 10), ("validation", 2), ("test", 3)):
            for name in speakers_of(split, count):
                soundfile.write(root / word / f"{name}_nohash_0.wav", numpy.full(SECOND, value, numpy.int16), SECOND)
    speech = root / "_speech_"
    for speaker, (text, value) in {"100": ("GO HOME", 11), "101": ("HE WENT", 12), "102": ("I GO", 13)}.items():
        (speech / speaker / "1").mkdir(parents=True)
        soundfile.write(
            speech / speaker / "1" / f"{speaker}-1-0.flac", numpy.full(2 * SECOND, value, numpy.int16), SECOND
        )
        (speech / speaker / "1" / f"{speaker}-1.trans.txt").write_text(f"{speaker}-1-0 {text}\n")
    return root


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Two recordings of a word are many, so that small folders are split like large ones."""
    monkeypatch.setattr("vitspeech.data.clips.folder.FEW", 2)


@pytest.fixture
def everyone_trains(monkeypatch):
    """The few speakers of the made speech are all training speakers."""
    monkeypatch.setattr("vitspeech.data.audio.continuous.split_of_speaker", lambda speaker: "train")


def keywords(root, **arguments):
    return Keywords(["go", "stop"], str(root), **arguments)


def test_the_words_heard_as_unknown_are_those_of_the_recordings_in_training(root):
    assert keywords(root, others=10).heard_words == ["cat", "dog"]
    assert keywords(root, others=10, held_out_words=["dog"]).heard_words == ["cat"]
    assert keywords(root, others=0).heard_words == []
    assert Keywords(["go"], str(root), recordings=None, synthesized=1).heard_words == []


def test_training_has_a_number_of_clips_of_each_source_per_keyword(root, everyone_trains):
    data = keywords(root, others=0.5, altered=0.25, speech_cuts=1.0, silence=0.1)
    items = data.read("train")
    counts = torch.bincount(items.labels, minlength=4).tolist()
    assert data.labels == ["go", "stop", "unknown", "silence"]
    assert counts == [10, 10, 10 + 5 + 20, 2]


def test_what_one_word_must_reject_is_as_much_as_what_many_must(root, everyone_trains):
    plan = {"others": 0.25, "altered": 0.5, "speech_cuts": 0.5, "silence": 0.1, "least_clips": 40}
    for words, clips in ((["go"], 10), (["go", "stop"], 20)):
        counts = torch.bincount(Keywords(words, str(root), **plan).read("train").labels).tolist()
        assert sum(counts[: len(words)]) == clips and counts[len(words) :] == [10 + 20 + 20, 4]


def test_few_recordings_are_repeated_until_they_are_as_many_as_synthesized_clips(root, everyone_trains):
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    data = keywords(root, others=0.0, altered=0.0, speech_cuts=0.5, silence=0.1, synthesized=35)
    items = data.read("train")
    recorded = [int(clip[0]) if (clip == clip[0]).all() else 0 for clip in items.inputs]
    assert recorded.count(1000) == recorded.count(2000) == 30  # three times ten
    assert torch.bincount(items.labels, minlength=4).tolist() == [65, 65, 65, 13]
    assert all(items.labels[i] == 0 for i, value in enumerate(recorded) if value == 1000)
    assert len(data.item_names()["train"]) == 20


def test_each_word_is_repeated_by_the_number_of_its_own_recordings(tmp_path):
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    for word, count in {"lamp": 30, "heating": 3}.items():
        for split, number in (("train", count), ("validation", 1), ("test", 1)):
            for name in speakers_of(split, number):
                (tmp_path / word).mkdir(exist_ok=True)
                soundfile.write(tmp_path / word / f"{name}_nohash_0.wav", numpy.full(SECOND, 1000, numpy.int16), SECOND)
    data = Keywords(["lamp", "heating", "curtain"], str(tmp_path), synthesized=20, altered=0.5, silence=0.1)
    with pytest.warns(UserWarning, match="no recordings of curtain"):
        items = data.read("train")
    assert torch.bincount(items.labels).tolist() == [30 + 20, 6 * 3 + 20, 20, 54, 11]


def test_other_words_are_unknown_and_held_out_ones_are_only_tested(root, everyone_trains):
    data = keywords(root, others=10, held_out_words=["dog"])
    train, test = data.read("train"), data.read("test")
    assert set(train.inputs[train.labels[: len(train.inputs)] == 2].unique().tolist()) == {3000}
    assert {name: set(test.inputs[rows].unique().tolist()) for name, rows in test.parts.items()} == {
        "unknown": {3000}, "unheard": {4000},
    }  # fmt: skip
    assert torch.bincount(test.labels).tolist() == [3, 3, 6, 1]


def test_held_out_words_are_not_synthesized_and_others_take_their_place(root, everyone_trains, monkeypatch):
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    spoken = []
    monkeypatch.setattr(
        "vitspeech.data.keywords.module.synthesize_split",
        lambda texts, *_: spoken.extend(texts) or synthesize_split(texts[:1], *_) * len(texts),
    )
    plan = {"spoken": 5.0, "others": 0, "speech_cuts": 0}
    keywords(root, **plan).read("train")
    held_out, count = spoken[::5], len(spoken)
    spoken.clear()
    keywords(root, **plan, held_out_words=held_out).read("train")
    assert not set(spoken) & set(held_out) and len(spoken) == count == 5 * 20


def test_speech_without_keywords_is_cut(root, everyone_trains):
    items = keywords(root).read("train")
    assert items.speech.unique().tolist() == [12]


def test_validation_and_test_speakers_are_not_heard(root, monkeypatch):
    monkeypatch.setattr("vitspeech.data.audio.continuous.split_of_speaker", lambda speaker: "test")
    message = r"_speech_: none of its speakers \(3\) falls into training \(half of the speakers do\); add speakers, or"
    with pytest.raises(InputError, match=message):
        keywords(root).read("train")
    assert len(keywords(root, speech_cuts=0).read("train"))  # needs no speech


def test_speech_with_a_keyword_everywhere_is_refused(root, everyone_trains):
    data = keywords(root)
    data.words += ["went"]
    with pytest.raises(InputError, match="_speech_: less than 1 s of training speech without keywords"):
        data.read_speech()


def test_silence_is_new_noise_in_every_batch(root, everyone_trains):
    data = keywords(root)
    items = data.read("train")
    silent = (items.labels == 3).nonzero()[:, 0]
    first, second = (data.training_batch(*items[torch.cat((silent, torch.arange(4))), seed])[0] for seed in (1, 2))
    assert first[0].abs().max() > 0 and not torch.equal(first[0], second[0])


def test_words_without_recordings_are_synthesized():
    data = Keywords(["lamp", "heating"], recordings=None, synthesized=10, spoken=0.5, others=0, altered=0.2)
    assert torch.bincount(data.read("train").labels).tolist() == [10, 10, 10 + 4, 2]
    test = data.read("test")
    assert torch.bincount(test.labels).tolist() == [2, 2, 0, 1] and not test.parts
    assert not set(test.speakers) & set(data.read("train").speakers)
    assert len(data.noise) == 8 * SECOND  # the noise of validation and test is not in training


@pytest.mark.parametrize(("language", "phrase"), [("en", "hey computer"), ("de", "hey Müller")])
def test_a_phrase_is_spoken_and_other_words_too_in_its_language(language, phrase):
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    options = {"synthesized": 4, "spoken": 1.0, "others": 0, "altered": 0, "language": language}
    data = Keywords([phrase], recordings=None, **options)
    data.prepare_data()
    items = data.read("train")
    assert data.labels == [phrase, "unknown", "silence"]
    assert torch.bincount(items.labels)[:2].tolist() == [4, 4]
    assert {speaker.partition("+")[0].partition("-")[0] for speaker in items.speakers[:8]} == {language}


@pytest.mark.parametrize("split", ["validation", "test"])
def test_keywords_without_recordings_in_a_held_out_split_are_synthesized_there(root, split):
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    recorded = {"validation": 2, "test": 3}[split]
    with pytest.warns(UserWarning, match="no recordings of lamp"):
        items = Keywords(["go", "lamp"], str(root), synthesized=10).read(split)
    assert torch.bincount(items.labels).tolist() == [recorded, 2, 3 * recorded, 1]
    with pytest.warns(UserWarning, match="no recordings of lamp, curtain"):
        items = Keywords(["lamp", "curtain"], str(root), synthesized=3).read(split)
    assert torch.bincount(items.labels).tolist() == [1, 1, 4 * recorded, 1]


def write_recordings(root, words, make):
    """A recording of each word by each of some speakers of each split: what `make` gives for the split and number."""
    for word in words:
        (root / word).mkdir(parents=True)
        for split, count in (("train", 5), ("validation", 2), ("test", 2)):
            for number, name in enumerate(speakers_of(split, count)):
                samples, rate_hz = make(split, number)
                soundfile.write(root / word / f"{name}_nohash_0.wav", samples, rate_hz)


def burst(seconds, *spans):
    """Faint noise with loud noise in each span from and to so many seconds: int16."""
    sound = 3 * numpy.random.default_rng(0).standard_normal(round(seconds * SECOND))
    for start, end in spans:
        sound[round(start * SECOND) : round(end * SECOND)] *= 1000
    return sound.astype(numpy.int16)


def test_broken_recordings_are_all_named_or_left_out(tmp_path):
    write_recordings(tmp_path, ["go", "stop"], lambda *_: (burst(1, (0.3, 0.7)), SECOND))
    broken = [tmp_path / "go" / f"{speakers_of('train', 1)[0]}_nohash_0.wav"]
    broken += [tmp_path / "stop" / f"{speakers_of('test', 1)[0]}_nohash_0.wav"]
    for file in broken:
        file.write_bytes(file.read_bytes()[:1000])
    arguments = {"others": 0, "altered": 0, "silence": 0.2}
    message = rf"1 of 10 files of train .*{broken[0]}: .*1 of 4 files of test .*{broken[1]}: .*--data.broken 0.05$"
    with pytest.raises(InputError, match=message):
        keywords(tmp_path, **arguments).setup()
    with (
        pytest.warns(UserWarning, match="1 of 10 files of train cannot be read and are left out"),
        pytest.raises(InputError, match=r"^1 of 4 files of test cannot be read, above broken=0\.2: "),
    ):
        keywords(tmp_path, broken=0.2, **arguments).setup()
    data = keywords(tmp_path, broken=0.25, **arguments)
    with pytest.warns(UserWarning, match="cannot be read and are left out"):
        data.setup()
    assert torch.bincount(data.train.labels).tolist() == [4, 5, 0, 2]
    assert torch.bincount(data.read("test").labels).tolist() == [2, 1, 0, 1]  # and is named once
    names = data.item_names()
    assert len(names["train"]) == 9 and "stop/" + broken[1].name not in names["test"] and len(names["test"]) == 3


def test_broken_speech_is_left_out(root, tmp_path, everyone_trains):
    speech = shutil.copytree(root / "_speech_", tmp_path / "speech")
    (speech / "100" / "1" / "100-1-0.flac").write_bytes(b"none")
    with pytest.raises(InputError, match=r"1 of 3 files of speech .*100-1-0\.flac"):
        keywords(root, speech=str(speech)).read_speech()
    with pytest.warns(UserWarning, match="1 of 3 files of speech cannot be read and are left out"):
        assert keywords(root, speech=str(speech), broken=0.4).read_speech().unique().tolist() == [12]


@pytest.mark.parametrize("folder", ["smart_mirror", "smart mirror"])
def test_a_phrase_is_named_with_spaces_or_underscores(tmp_path, folder):
    write_recordings(tmp_path, [folder, "view_glass", "other_phrase"], lambda *_: (burst(1, (0.3, 0.7)), SECOND))
    data = Keywords(["smart mirror", "view glass"], str(tmp_path), held_out_words=["other phrase"], silence=0)
    assert torch.bincount(data.read("test").labels).tolist() == [2, 2, 2, 1] and not data.heard_words
    (tmp_path / "Smart_Mirror").mkdir()
    soundfile.write(tmp_path / "Smart_Mirror" / f"{speakers_of('train', 1)[0]}_nohash_0.wav", burst(1), SECOND)
    with pytest.raises(InputError, match="'Smart_Mirror' is not 'smart mirror'; give both the same capital letters"):
        _ = Keywords(["smart mirror"], str(tmp_path)).files
    with pytest.raises(InputError, match="one given twice"):
        Keywords(["smart mirror", "smart_mirror"], str(tmp_path))


def test_longer_recordings_are_cut_around_the_word_and_others_stay(tmp_path):
    short, long = burst(1, (0.1, 0.4)), burst(3, (2.1, 2.5))
    write_recordings(tmp_path, ["go"], lambda split, number: (short if number == 0 else long, SECOND))
    clips = Keywords(["go"], str(tmp_path)).read("validation").inputs[:2]
    assert any((clip == torch.from_numpy(short)).all() for clip in clips)
    loud = [(clip.abs() > 100).nonzero()[[0, -1], 0].tolist() for clip in clips]
    assert any(abs(start + end - SECOND) < 0.06 * SECOND for start, end in loud)
    data = Keywords(["go"], str(tmp_path), seconds=1.5)
    assert data.read("validation").inputs.shape[1] == 24_000 == data.samples


def test_words_longer_than_a_clip_are_named_and_their_middle_is_kept(tmp_path):
    write_recordings(tmp_path, ["go"], lambda *_: (burst(3, (1.4, 2.6)), SECOND))
    with pytest.warns(
        UserWarning, match="2 recordings are of a word longer than a clip of 1 s, which keeps its middle"
    ):
        clips = Keywords(["go"], str(tmp_path)).read("validation").inputs[:2]
    starts = torch.from_numpy(burst(3, (1.4, 2.6))).unfold(0, 50, 1)
    for clip in clips:
        assert abs(int((starts == clip[:50]).all(1).nonzero()) - 24_000) < 400
    Keywords(["go"], str(tmp_path), seconds=1.5).read("validation")  # a warning would be an error


def test_recordings_with_the_word_twice_are_named_and_phrases_are_not(tmp_path):
    spans = {0: [(0.2, 0.6), (1.0, 1.4)], 1: [(0.2, 0.6), (0.8, 1.2)]}
    write_recordings(tmp_path, ["go", "other"], lambda _, number: (burst(2, *spans[number % 2]), SECOND))
    twice = f"go/{speakers_of('validation', 1)[0]}_nohash_0.wav"
    with pytest.warns(UserWarning, match=f"1 recording is likely to have the word twice: .*{twice}$"):
        Keywords(["go"], str(tmp_path), seconds=1.5).read("validation")


def test_recordings_of_a_low_rate_are_named(tmp_path):
    write_recordings(tmp_path, ["go"], lambda *_: (burst(0.5, (0.1, 0.4)), 8000))
    with pytest.warns(UserWarning, match="2 recordings are of 8,000 Hz: mel bins above 4,000 Hz are empty: "):
        assert Keywords(["go"], str(tmp_path)).read("validation").inputs.shape[1] == SECOND


def test_a_word_inside_another_is_named_without_synthesized_voices(root):
    with pytest.warns(UserWarning, match="'go' inside 'go home'"), pytest.raises(InputError, match="go home"):
        Keywords(["go", "go home"], str(root)).prepare_data()


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ({"words": []}, "none given"),
        ({"words": ["go", "go"]}, "one given twice"),
        ({"words": ["go", "unknown"]}, "one is unknown"),
        ({"words": ["go", "up"]}, "no recordings of up, and synthesized=0"),
        ({"altered": -1}, "altered=-1"),
        ({"speech_hours": 0}, "speech_hours=0"),
        ({"recordings": None}, "no clips of the words"),
    ],
)
def test_wrong_arguments_are_named(root, arguments, reason):
    with pytest.raises(InputError, match=reason):
        Keywords(**{"words": ["go", "stop"], "root": str(root)} | arguments).read("train")


def test_noise_of_every_format_is_read_and_hidden_files_are_not(tmp_path):
    folder = tmp_path / "_background_noise_"
    folder.mkdir()
    for name, value in (("fan.flac", 100), ("room.flac", 200), ("room.wav", 300), ("HALL.WAV", 400)):
        soundfile.write(folder / name, numpy.full(10 * SECOND, value, numpy.int16), SECOND)
    (folder / "._room.wav").write_bytes(b"\0\5\x16\7")  # what macOS writes
    (folder / "README.md").write_text("noise")
    found = read_noise(folder, SECOND, splits=True)
    assert {name: int(noise[0]) for name, noise in found.items()} == {
        "HALL": 400, "fan": 100, "room.flac": 200, "room.wav": 300,
    }  # fmt: skip


def test_the_background_that_comes_with_vitspeech_is_heard_besides_own_speech(root, monkeypatch):
    alone = keywords(root, background=True, recordings=None, synthesized=1, speech_cuts=1)
    speakers = {item.speaker for item in alone.speech_recordings}
    assert {"118", "words0"} <= speakers and "163" not in speakers  # 163 is for validation
    assert set(alone.recorded_noise) >= {"running_tap", "pink_noise"}
    monkeypatch.setattr("vitspeech.data.audio.continuous.split_of_speaker", lambda speaker: "train")
    both = keywords(root, background=True)
    assert {"100", "118"} <= {item.speaker for item in both.speech_recordings}
    monkeypatch.setattr("vitspeech.data.audio.background.PACKAGE", root / "nowhere")
    with pytest.raises(InputError, match="come with vitspeech are missing; set background: false"):
        keywords(root, background=True)
