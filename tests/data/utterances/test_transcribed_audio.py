"""Recordings with transcripts: splits, batches, noise, what is wrong with them, and a run from them to a card."""

import dataclasses
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import soundfile
import torch
import yaml

from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.checkpoint.model import load
from vitspeech.data.audio.synthesis import Voice, synthesize
from vitspeech.data.batches import SpeechBatch
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.utterances import transcribed_audio
from vitspeech.data.utterances.augment import SequenceAugment, add_noise
from vitspeech.data.utterances.module import CHARACTERS
from vitspeech.data.utterances.transcribed_audio import TranscribedAudio
from vitspeech.errors import InputError
from vitspeech.tasks import Recognition
from vitspeech.tasks.task import length_groups
from vitspeech.training.train import TrainingCLI

PLAIN = SequenceAugment(snr_db=(100, 100), speed=0, gain_db=0)  # noise of less than a step of 16 bits


def write(path: Path, value: int, samples: int = 1600, rate_hz: int = 16_000) -> Path:
    """A recording whose every sample is `value`, so that it tells which file it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, numpy.full(samples, value, dtype=numpy.int16), rate_hz)
    return path


def listing(root: Path, name: str, *rows: str, header: str = "path,transcript") -> None:
    root.mkdir(exist_ok=True)
    (root / f"{name}.csv").write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")


def fill(root: Path, *transcripts: str, name: str = "train", first: int = 0) -> Path:
    """A recording of each transcript, NAME/0.wav and so on, the next always 11 samples longer, and a CSV of them."""
    for number in range(len(transcripts)):
        write(root / name / f"{number}.wav", 1000 + first + number, 1601 + 11 * number)
    listing(root, name, *(f"{name}/{number}.wav,{said}" for number, said in enumerate(transcripts)))
    return root


def filled(root: Path) -> Path:
    """All three splits: five, two and three recordings."""
    fill(root, "go left", "stop", "left left go", "go", "stop left")
    fill(root, "left", "go stop", name="validation", first=100)
    return fill(root, "stop", "go", "left go", name="test", first=200)


def made(root: Path, **arguments) -> TranscribedAudio:
    data = TranscribedAudio(str(root), **arguments)
    data.setup("fit")
    return data


def values(data: TranscribedAudio, split: str) -> list[int]:
    """The value of each recording of the split, in order."""
    sounds = data.read(split).sounds
    assert all((sound == sound[0]).all() for sound in sounds)
    return [int(sound[0]) for sound in sounds]


def in_training(data: TranscribedAudio, batch: tuple[SpeechBatch, int], training: bool = True) -> SpeechBatch:
    data.trainer = SimpleNamespace(training=training)
    return data.on_after_batch_transfer(batch, 0)


def test_splits_are_as_their_csv_files_say(tmp_path):
    data = made(filled(tmp_path))
    assert data.labels == ["go", "left", "stop"]
    assert values(data, "train") == [1000, 1001, 1002, 1003, 1004]
    assert values(data, "validation") == [1100, 1101] and values(data, "test") == [1200, 1201, 1202]
    assert data.train.units == [[0, 1], [2], [1, 1, 0], [0], [2, 1]]
    assert {sound.dtype for sound in data.train.sounds} == {torch.int16}
    assert data.preprocessing == {"sample_rate_hz": 16_000, "units": "words"}


def test_a_split_without_a_csv_is_a_tenth_of_training_whatever_the_seed(tmp_path):
    fill(tmp_path, *["go", "left"] * 15)
    one, other = made(tmp_path, seed=0), made(tmp_path, seed=7)
    every = [values(one, split) for split in ("train", "validation", "test")]
    assert every == [values(other, split) for split in ("train", "validation", "test")]
    assert [len(some) for some in every] == [24, 3, 3]
    assert sorted(value for some in every for value in some) == [*range(1000, 1030)]
    # A transcript stays with its recording.
    for split in ("train", "validation", "test"):
        recordings = one.read(split)
        said = [some.words for some in recordings.utterances]
        assert said == [[["go"], ["left"]][value % 2] for value in values(one, split)]
        assert recordings.units == [[value % 2] for value in values(one, split)]


def test_speakers_stay_together_and_speak_every_word_of_an_utterance(tmp_path):
    fill(tmp_path, *["go left", "stop"] * 20)
    rows = (tmp_path / "train.csv").read_text().splitlines()[1:]
    speakers = [f"speaker {number // 4}" for number in range(40)]
    rows = (f"{row},{name}" for row, name in zip(rows, speakers, strict=True))
    listing(tmp_path, "train", *rows, header="path,transcript,speaker")
    data = made(tmp_path)
    found = {split: data.read(split).speakers for split in ("train", "validation", "test")}
    assert [len(row) for row in found["test"][:2]] == [2, 1]
    names = {split: {name for row in rows for name in row} for split, rows in found.items()}
    assert sum(map(len, names.values())) == 10 and all(names.values())
    assert len(found["test"]) == 4 * len(names["test"])


def test_transcripts_are_taken_as_they_stand(tmp_path):
    fill(tmp_path, '"Well,   go on!"', "go\ton", "größer go")
    data = made(tmp_path, vocabulary=["größer", "on!", "on", "go", "Well,", "never"])
    assert data.labels == ["größer", "on!", "on", "go", "Well,", "never"]
    every = {tuple(units) for split in data.splits for units in data.read(split).units}
    assert every == {(4, 3, 1), (3, 2), (0, 3)}


def test_characters_are_those_of_english_or_the_ones_given(tmp_path):
    fill(tmp_path, "go  on", "don't", "o")
    data = made(tmp_path, units="characters")
    assert data.labels == list(CHARACTERS) and data.preprocessing["units"] == "characters"
    every = {tuple(units) for split in data.splits for units in data.read(split).units}
    assert tuple(CHARACTERS.index(letter) for letter in "go on") in every
    assert tuple(CHARACTERS.index(letter) for letter in "don't") in every
    assert made(tmp_path, units="characters", vocabulary=[*"ntgod' "]).labels == [*"ntgod' "]


def test_a_batch_is_padded_at_the_ends_and_knows_no_times(tmp_path):
    data = made(filled(tmp_path))
    speech, seed = data.train[torch.tensor([2, 0, 4]), 17]
    assert seed == 17 and speech.waveforms.dtype == torch.int16
    assert speech.lengths.tolist() == [1623, 1601, 1645] and speech.waveforms.shape == (3, 1645)
    for row, length, value in zip(speech.waveforms, speech.lengths.tolist(), (1002, 1000, 1004), strict=True):
        assert (row[:length] == value).all() and not row[length:].any()
    assert speech.units.tolist() == [[1, 1, 0], [0, 1, -1], [2, 1, -1]]
    assert speech.spans.shape == (3, 0, 2)
    ((waveforms, lengths, units, spans),) = length_groups(speech)
    assert lengths.tolist() == [1601, 1623, 1645] and waveforms.shape == (3, 1645) and spans.shape == (3, 0, 2)
    assert units.tolist() == [[0, 1, -1], [1, 1, 0], [2, 1, -1]]


@pytest.mark.parametrize("snr_db", [0.0, 17.0])
def test_noise_lies_under_each_recording_at_its_ratio(snr_db):
    torch.manual_seed(0)
    noise, lengths = pink_noise(700), torch.tensor([5003, 7919, 3001])
    waveforms = torch.randn(3, 7919) * torch.tensor([[0.5], [0.1], [0.01]])
    for row, length in zip(waveforms, lengths, strict=True):
        row[length:] = 0
    before = waveforms.clone()
    added = add_noise(waveforms, lengths, noise, (snr_db, snr_db)) - waveforms
    assert torch.equal(waveforms, before)
    for row, length, under in zip(waveforms, lengths, added, strict=True):
        ratio = row[:length].square().mean() / under[:length].square().mean()
        assert 10 * ratio.log10() == pytest.approx(snr_db, abs=0.01)
        assert not under[length:].any()
    # Each has its own stretch, and where the noise ends it begins again.
    assert numpy.corrcoef(added[:2, :3001])[0, 1] < 0.9
    torch.testing.assert_close(added[1, 7000:], added[1, :919], rtol=0, atol=1e-5)
    stretches = noise.repeat(2).unfold(0, 499, 1)[:7000].float()
    likeness = torch.nn.functional.cosine_similarity(stretches, added[2, None, :499])
    assert likeness.max() > 0.9999


def test_noise_lies_under_its_share_of_the_recordings_and_the_others_stay_clean(prob=0.3):
    torch.manual_seed(0)
    waveforms = torch.randn(400, 499)
    changed = (add_noise(waveforms, torch.full((400,), 499), pink_noise(5000), (0, 20), prob) != waveforms).any(1)
    assert changed.float().mean() == pytest.approx(prob, abs=0.06)


def test_a_silent_recording_gets_noise_all_the_same_and_a_warning(tmp_path):
    filled(tmp_path)
    write(tmp_path / "train" / "3.wav", 16, 1999)
    warning = r"1 recording is silent \(nothing above -66 dBFS\): .*train/3\.wav"
    with pytest.warns(UserWarning, match=warning):
        data = made(tmp_path)
    assert in_training(data, data.train[torch.tensor([3]), 0]).waveforms.isfinite().all()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("train", "path,transcript\ntrain/0.wav,go\n\ntrain/1.wav, \n", "line 4: empty transcript"),
        (
            "validation",
            "path,transcript\nvalidation/0.wav,go\nvalidation/1.wav,go right left\n",
            "line 3: 'right' of 'go right left' is outside the vocabulary go, left, stop",
        ),
        ("test", "path,transcript\ntest/0.wav,Go\n", "line 2: 'Go' of 'Go' is outside the vocabulary go, left, stop"),
        ("test", "path,transcript\ntest,go\n", "line 2: {root}/test does not exist"),
        ("test", "path,transcript\ntest/0.wav,go\nbroken.wav,go\n", "line 3: {root}/broken.wav: not a recording"),
        ("test", "path,transcript\nlong.wav,go\n", "line 2: {root}/long.wav: lasts 61.0 s, above 60 s"),
    ],
)
def test_errors_are_reported_with_file_and_line_before_training(tmp_path, name, content, reason):
    filled(tmp_path)
    (tmp_path / "broken.wav").write_text("no sound")
    write(tmp_path / "long.wav", 1000, 61_000, rate_hz=1000)
    file = tmp_path / f"{name}.csv"
    file.write_text(content, encoding="latin-1")
    data = TranscribedAudio(str(tmp_path))  # says nothing yet: the command line would bury it
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(reason.format(root=tmp_path))) as caught:
        data.setup("fit")
    assert f"{file}: " in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("units", "vocabulary", "reason"),
    [
        ("words", ["go", "left"], r"train\.csv: line 3: 'stop' of 'stop' is outside the vocabulary go, left$"),
        (
            "characters",
            None,
            r"test\.csv: line 4: 'L' of 'Left go' is outside the vocabulary ' ', ', a, b, .*, z; vocabulary: training",
        ),
        ("characters", [*" goleftsp"], r"test\.csv: line 4: 'L' of 'Left go' is outside"),
    ],
)
def test_what_is_outside_a_vocabulary_that_is_given_is_named(tmp_path, units, vocabulary, reason):
    fill(filled(tmp_path), "stop", "go", "Left go", name="test", first=200)
    with pytest.raises(ValueError, match=reason):
        made(tmp_path, units=units, vocabulary=vocabulary)


def test_a_folder_without_a_listing_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train\.csv: no such file; it lists recordings with transcripts"):
        TranscribedAudio(str(tmp_path))


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("“Où est-il?” — L’été, 1999!", "où est il l'été 1999"),
        ("e\u0301te\u0301", "\u00e9t\u00e9"),  # composed
        ("'Tis DON'T dogs'", "tis don't dogs"),
        ("Ελλάς हिन्दी", "ελλάς हिन्दी"),  # a final sigma, and vowel signs
        ("Wort\u00adteil می\u200cخواهم", "wortteil میخواهم"),  # a soft hyphen, a zero-width non-joiner
        ("İstanbul", "istanbul"),
    ],
)
def test_plain_text_is_in_lower_case_without_punctuation(written, plain):
    assert transcribed_audio.plain_text(written) == plain


@pytest.mark.parametrize(
    "units", [{"units": "characters", "vocabulary": "training"}, {"units": "pieces", "vocab_size": 30}]
)
def test_a_character_that_only_held_out_transcripts_have_is_reported_and_left_out_of_the_units(tmp_path, units):
    fill(tmp_path, *(f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"))
    fill(tmp_path, "zab zz", name="validation", first=100)
    fill(tmp_path, "ab", name="test", first=200)
    with pytest.warns(UserWarning, match="held-out transcripts have characters that training does not have: 'z'$"):
        data = made(tmp_path, **units)
    assert data.validation.units == [data.encode(["ab"])] and data.validation.utterances[0].words == ["zab", "zz"]
    fill(tmp_path, "zz", name="validation", first=100)
    with pytest.raises(InputError, match=r"validation\.csv: line 2: 'z' of 'zz' is"):
        made(tmp_path, **units)


@pytest.mark.parametrize(
    "units", [{"units": "characters", "vocabulary": "training"}, {"units": "pieces", "vocab_size": 30}]
)
def test_units_are_not_learned_from_the_rows_that_are_held_out(tmp_path, units):
    said = [f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]
    held_out = values(made(fill(tmp_path, *said)), "test")[0] - 1000
    said[held_out] = "zab"
    fill(tmp_path, *said)
    with pytest.warns(UserWarning, match="held-out transcripts have characters that training does not have: 'z'$"):
        data = made(tmp_path, **units)
    assert "z" not in "".join(data.labels)
    assert held_out + 1000 in values(data, "test")


def test_a_transcript_without_letters_is_refused_as_plain_text(tmp_path):
    with pytest.raises(InputError, match=r"train\.csv: line 3: the transcript '…' has no letters"):
        made(fill(tmp_path, "go", "…", "stop", "left"), text="plain")


# From recordings to a card.

SAID = ("go left", "stop", "left go stop", "go", "stop left", "left", "go stop", "stop go left")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Twenty-four synthesized recordings, and the config of a tiny recognizer of what is said in them."""
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    root = tmp_path_factory.mktemp("recordings")
    texts = [said for said in SAID for _ in range(3)]
    voices = [Voice(rate_wpm=120 + number) for number in range(len(texts))]
    for number, sound in enumerate(synthesize(texts, voices)):
        soundfile.write(root / f"{number:02}.wav", sound.numpy(), 16_000)
    rows = [f"{number:02}.wav,{said}" for number, said in enumerate(texts)]
    listing(root, "train", *rows[::3], *rows[1::3])
    listing(root, "test", *rows[2::3])
    tokens = {"width": 16, "mels": 40, "stem": "convolutional", "stride": 2}
    network = {
        "tokens": {"class_path": "vitspeech.SpeechFrontend", "init_args": tokens},
        "encoder": {"depth": 1, "heads": 2},
    }
    settings = {
        "seed_everything": 3,
        "data": {"class_path": "vitspeech.TranscribedAudio", "init_args": {"root": str(root), "batch": 5}},
        "model": {
            "class_path": "vitspeech.Recognition",
            "init_args": {
                "network": {"class_path": "vitspeech.SpeechRecognizer", "init_args": network},
                "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.003}},
            },
        },
        "trainer": {"max_epochs": 2, "enable_progress_bar": False, "accelerator": "cpu"},
    }
    (root / "recordings.yaml").write_text(yaml.safe_dump(settings))
    return root / "recordings.yaml"


def trained(config: Path, run: Path, *more: str) -> Path:
    TrainingCLI([f"--config={config}", *more, f"--run={run}"]).train()
    return run


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    return trained(config, tmp_path_factory.mktemp("runs") / "one")


def test_a_run_ends_with_a_card_that_comes_out_again(config, run):
    errors, card = (run / "errors.txt").read_text(), json.loads((run / "model" / "card.json").read_text())
    assert errors.startswith("test: word_error_rate ") and re.search(r"^test, \d\d\.wav", errors, re.MULTILINE)
    init_args = {"units": "words", "vocabulary": None, "vocab_size": 500, "text": "as_written"}
    assert card["data"] == {"class_path": "vitspeech.TranscribedAudio", "init_args": init_args}
    metrics = card["metrics"]
    assert metrics["test_set"] == "test" and metrics["utterances"] == 8 and metrics["words"] == 15
    model = load(run)
    assert model.labels == ["go", "left", "stop"]
    data = card_dataset(model, str(config.parent))
    assert Recognition.evaluate(model.network, data, progress=False).metrics == metrics
    with pytest.raises(ValueError, match="name the folder of the data with --data: TranscribedAudio has no default"):
        card_dataset(model, None)


def test_labeling_without_times_is_refused(config, tmp_path):
    network = {"tokens": {"class_path": "vitspeech.SpeechFrontend", "init_args": {"width": 16}}}
    settings = yaml.safe_load(config.read_text())
    network["encoder"] = {"depth": 1, "heads": 2}
    labeler = {"class_path": "vitspeech.SpeechLabeler", "init_args": network}
    settings["model"] = {"class_path": "vitspeech.Labeling", "init_args": {"network": labeler}}
    (tmp_path / "labeling.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(ValueError, match="words without times"):
        trained(tmp_path / "labeling.yaml", tmp_path / "run")


@pytest.mark.parametrize("units", ["words", "characters"])
def test_utterances_of_a_batch_are_joined_in_pairs(tmp_path, units):
    augment = dataclasses.replace(PLAIN, noise_prob=0.0)
    fill(filled(tmp_path), "go", "left", "stop", "go")
    for prob, count in ((0.0, 4), (1.0, 2)):
        data = made(tmp_path, units=units, augment=dataclasses.replace(augment, join_prob=prob))
        speech, _ = data.train[torch.arange(4), 0]
        batch = data.augment_batch(speech)
        assert len(batch.waveforms) == len(batch.units) == count
        said = [
            "".join(data.labels[unit] + " " * (units == "words") for unit in row if unit >= 0) for row in batch.units
        ]
        assert sorted(" ".join(said).split()) == ["go", "go", "left", "stop"]
        assert all(len(text.split()) == 4 // count for text in said)
