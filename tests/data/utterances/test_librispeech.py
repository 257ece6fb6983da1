"""LibriSpeech's folders: splits, held-out speakers, transcripts, and what is wrong with them."""

import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import soundfile

from vitspeech.checkpoint.card_dataset import card_dataset
from vitspeech.data.utterances.librispeech import LibriSpeech
from vitspeech.data.utterances.module import CHARACTERS
from vitspeech.errors import InputError

SPEAKERS = {11: "GO LEFT", 12: "STOP", 13: "IT'S LEFT", 14: "LEFT GO STOP"}


def write(root: Path, subset: str = "mini", speakers: dict = SPEAKERS, ending: str = "flac") -> Path:
    """A chapter of two recordings of each speaker, the second twice as long; samples are the speaker's number."""
    for speaker, said in speakers.items():
        chapter = root / "LibriSpeech" / subset / str(speaker) / "7"
        chapter.mkdir(parents=True)
        for number in range(2):
            samples = numpy.full(1600 * (number + 1), 100 * speaker, dtype=numpy.int16)
            soundfile.write(chapter / f"{speaker}-7-{number:04}.{ending}", samples, 16_000)
        lines = (f"{speaker}-7-{number:04} {said}" for number in range(2))
        (chapter / f"{speaker}-7.trans.txt").write_text("\n".join(lines) + "\n")
    return root


def made(root: Path, **arguments) -> LibriSpeech:
    data = LibriSpeech(str(root), **{"train": ["mini"], "test_speakers": [12], "validation_speakers": [13]} | arguments)
    data.prepare_data()
    data.setup("fit")
    return data


def speakers(data: LibriSpeech, split: str) -> list[int]:
    """The speaker of each recording, by its samples."""
    return [int(sound[0]) // 100 for sound in data.read(split).sounds]


def chapter(root: Path, speaker: int = 11) -> Path:
    return root / "LibriSpeech" / "mini" / str(speaker) / "7"


def test_speakers_are_held_out_as_named(tmp_path):
    data = made(write(tmp_path))
    assert speakers(data, "train") == [11, 11, 14, 14]
    assert speakers(data, "validation") == [13, 13] and speakers(data, "test") == [12, 12]
    assert [item.id for item in data.test_sets()["test"].utterances] == ["12-7-0000", "12-7-0001"]
    assert data.test_sets()["test"].speakers == [["12"], ["12"]]


def test_transcripts_are_in_lower_case_and_spelled(tmp_path):
    data = made(write(tmp_path))
    assert data.labels == list(CHARACTERS)
    assert "".join(data.labels[unit] for unit in data.validation.units[0]) == "it's left"


def test_the_labels_of_a_model_need_no_training_transcripts(tmp_path):
    """Learned from training, they are the model's; the test may have other letters, which count as errors."""
    write(tmp_path, "other", {21: "GO ZOE"})
    arguments = {"train": ["mini"], "test": ["other"], "vocabulary": "training"}
    card = {"data": {"class_path": "vitspeech.LibriSpeech", "init_args": arguments}}
    model = SimpleNamespace(card=card, labels=list(" 'efgilopst"), preprocessing={}, trust=(), folder=tmp_path)
    data = card_dataset(model, str(tmp_path))
    with pytest.warns(UserWarning, match="characters that training does not have: 'z'$"):
        test = data.read("test")
    assert data.labels == model.labels and test.units == [data.encode(["go", "oe"])] * 2


def test_an_official_subset_is_downloaded_once_and_whole(tmp_path, monkeypatch):
    downloads = []

    def unpack(root, subset):
        write(Path(root), subset)
        downloads.append(subset)
        if len(downloads) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("torchaudio.datasets.librispeech._download_librispeech", unpack)
    data = partial(made, tmp_path, train=["dev-clean"], download=True)
    with pytest.raises(KeyboardInterrupt):
        data()
    with pytest.raises(InputError, match=f"^{tmp_path}/LibriSpeech/dev-clean: unpacking was interrupted"):
        data()
    shutil.rmtree(tmp_path / "LibriSpeech/dev-clean")
    assert speakers(data(), "train") == speakers(data(), "train") == [11, 11, 14, 14]
    assert downloads == ["dev-clean"] * 2


def test_subsets_are_splits(tmp_path):
    for subset, of in (("mini", [11]), ("dev", [12]), ("clean", [13, 14])):
        write(tmp_path, subset, {speaker: SPEAKERS[speaker] for speaker in of}, ending="wav")
    none = {"test_speakers": (), "validation_speakers": ()}
    data = made(tmp_path, validation=["dev"], test=["clean"], **none)
    assert [speakers(data, split) for split in ("train", "validation", "test")] == [
        [11] * 2,
        [12] * 2,
        [13, 13, 14, 14],
    ]


def test_without_names_a_hash_holds_out_speakers(tmp_path):
    write(tmp_path, speakers={speaker: "GO" for speaker in range(1, 21)})
    data = made(tmp_path, test_speakers=(), validation_speakers=())
    split = {name: set(speakers(data, name)) for name in ("train", "validation", "test")}
    assert all(split.values()) and len(split["train"] | split["validation"] | split["test"]) == 20
    assert sum(map(len, split.values())) == 20


def test_hours_take_a_part_of_training_alone(tmp_path):
    write(tmp_path, speakers={speaker: "GO" for speaker in range(11, 21)})
    whole = made(tmp_path)
    part = made(tmp_path, hours=whole.train.seconds.sum().item() / 2 / 3600)
    assert 0.4 < part.train.seconds.sum() / whole.train.seconds.sum() < 0.65
    assert len(set(speakers(part, "train"))) > 4
    assert len(part.validation) == len(whole.validation)
    with pytest.raises(InputError, match=r"hours=3: training has 0\.00 hours"):
        made(tmp_path, hours=3)


def test_hours_leave_broken_recordings_to_the_share_that_is_allowed(tmp_path):
    write(tmp_path, speakers={speaker: "GO" for speaker in range(11, 21)})
    file = chapter(tmp_path, 14) / "14-7-0000.flac"
    file.write_bytes(b"")
    hours = 1 / 3600  # of the 2.4 s
    with pytest.raises(InputError, match=r"14-7-0000\.flac"):
        made(tmp_path, hours=2.2 * hours)
    with pytest.warns(UserWarning, match="1 of .* are left out"):
        data = made(tmp_path, hours=2.2 * hours, broken=0.1)
    assert len(data.train) == 15


def test_pieces_are_learned_from_training_and_are_in_the_preprocessing(tmp_path):
    write(tmp_path, speakers={speaker: "THE QUICK BROWN FOX JUMPS OVER A LAZY DOG" for speaker in range(11, 19)})
    data = made(tmp_path, units="pieces", vocab_size=32)
    assert len(data.labels) == 32 and data.preprocessing["merges"] == data.subwords.merges
    names = [data.labels[unit] for unit in data.train.units[0]]
    assert "".join(names).replace("▁", " ").split() == data.train.utterances[0].words


def test_a_test_subset_needs_no_other(tmp_path):
    write(tmp_path, "clean", {12: "GO"})
    none = {"test_speakers": (), "validation_speakers": ()}
    data = LibriSpeech(str(tmp_path), train=["mini"], validation=["dev"], test=["clean"], **none)
    assert [item.id for item in data.test_sets()["test"].utterances] == ["12-7-0000", "12-7-0001"]
    assert list(data.item_names()) == ["test"]
    for missing, read in (
        ("mini", lambda: data.read("train")),
        ("dev", lambda: data.read("validation")),
        ("mini", lambda: data.setup("fit")),
        ("mini", data.prepare_data),
    ):
        with pytest.raises(FileNotFoundError, match=rf"{missing}: this subset .* is missing \(found: clean\)"):
            read()


def lines(root: Path, *rows: str) -> None:
    (chapter(root) / "11-7.trans.txt").write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["11-7-0000 GO", "11-7-0001"], "line 2: 11-7-0001 has no words"),
        (["11-7-0000 GO"], "the recording or the transcript of 11-7-0001 is missing"),
        (["11-7-0000 GO", "11-7-0001 GO", "11-7-0002 GO"], "the recording or the transcript of 11-7-0002 is missing"),
        (["11-7-0000 GO", "11-7-0001 GO", "11-7-0001 GO"], "line 3: 11-7-0001 .*is listed twice"),
        (["11-7-0000 GO", "11-7-0001 CAFÉ"], "line 2: 'é' of 'café' is outside the vocabulary"),
    ],
)
def test_a_bad_line_is_named(tmp_path, rows, message):
    lines(write(tmp_path), *rows)
    with pytest.raises(InputError, match=message):
        made(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"test_speakers": [99]}, "test_speakers: 99 not in"),
        ({"test_speakers": [13]}, "is listed twice"),
        ({"test": ["clean"]}, "test and test_speakers are both given"),
        ({"test": ["mini"], "test_speakers": []}, "is listed twice"),
        ({"train": [], "test_speakers": [], "validation_speakers": []}, "no speaker is left|too few"),
        ({"test_speakers": [11, 12, 14]}, "train: no speaker is left"),
    ],
)
def test_bad_arguments_get_one_line(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        made(write(tmp_path), **arguments)
