"""What models are looked at with: splits of made-up data sets, folders of pictures, and what is refused.

Shapes: B inputs, N image side in pixels or samples of a clip.
"""

from dataclasses import replace

import pytest
import soundfile
import torch
from PIL import Image
from tiny import ROOT

import vitspeech
from vitspeech import checkpoint
from vitspeech.data import Shapes
from vitspeech.receptive.compare import compare
from vitspeech.receptive.plan import Plan
from vitspeech.receptive.sample import sample_for
from vitspeech.receptive.subjects import subject


@pytest.fixture(scope="module")
def seeing(finished_run):
    return subject(str(finished_run))


@pytest.fixture(scope="module")
def hearing(finished_speech_run):
    return subject(str(finished_speech_run))


@pytest.fixture
def folder(tmp_path):
    """Five pictures of different sizes, the number of each in its red channel."""
    (tmp_path / "album" / "more").mkdir(parents=True)
    for number in range(5):
        part = tmp_path / "album" / ("more" if number % 2 else "")
        Image.new("RGB", (40 + number, 31), (50 * number, 10, 20)).save(part / f"{number}.png")
    return tmp_path / "album"


def test_pictures_are_of_the_validation_split_with_their_labels(seeing):
    sample = sample_for([seeing], None, 7)
    items = Shapes(count=250).read("validation")
    assert sample.raw.shape == (7, 3, 32, 32) and sample.raw.dtype == torch.uint8 and sample.middles is None
    assert sample.names == Shapes.labels and sample.origin == "7 validation images of Shapes"
    places = [int((items.inputs == picture).flatten(1).all(1).nonzero().squeeze()) for picture in sample.raw]
    assert len(set(places)) == 7 and sample.labels.tolist() == items.labels[places].tolist()


def test_a_sample_is_the_same_each_time_and_its_first_inputs_are_those_of_a_smaller_one(seeing):
    some, again, fewer = (sample_for([seeing], None, count) for count in (9, 9, 4))
    assert torch.equal(some.raw, again.raw) and torch.equal(some.labels, again.labels)
    assert torch.equal(some.first(4).raw, fewer.raw) and torch.equal(some.first(4).labels, fewer.labels)
    assert some.first(4).names == some.names and some.first(4).middles is None
    assert len(sample_for([seeing], None, 999).raw) == 50  # all that there are


def test_clips_hold_only_words_with_their_centers(hearing):
    sample = sample_for([hearing], None, 999)
    words = set(sample.names) - {"unknown", "silence"}
    assert {sample.names[label] for label in sample.labels} <= words and len(sample.raw) >= 4
    assert sample.raw.dtype == torch.int16 and sample.raw.shape[1] == 16000
    assert ((sample.middles > 2000) & (sample.middles < 14000)).all()
    for clip, middle in zip(sample.raw.double(), sample.middles, strict=True):
        around = clip[int(middle) - 6400 : int(middle) + 6400].square().sum()
        assert around > 0.8 * clip.square().sum()
    assert sample.first(3).middles.tolist() == sample.middles[:3].tolist()


def test_utterances_are_looked_at_word_by_word(finished_recognizer_run, hearing):
    sample = sample_for([subject(str(finished_recognizer_run))], None, 4)
    assert sample.origin == "4 validation clips of SpokenWords"
    assert torch.equal(sample.raw, sample_for([hearing], None, 4).raw)


@pytest.fixture
def transcribed(finished_recognizer_run, tmp_path):
    """The tiny recognizer with a card that names recordings with transcripts: 300 quiet ms, then a loud tone."""
    root = tmp_path / "recordings"
    root.mkdir()
    for split, seconds in (("train", (1.5,)), ("validation", (0.5, 1.5, 2.5)), ("test", (1.5,))):
        lines = ["path,transcript"]
        for length in seconds:
            sound = 0.01 * torch.ones(int(16_000 * length))
            sound[4800:] = 0.5 * torch.sin(0.3 * torch.arange(len(sound) - 4800))
            soundfile.write(root / f"{split}{length}.wav", sound.numpy(), 16_000)
            lines.append(f"{split}{length}.wav,yes no")
        (root / f"{split}.csv").write_text("\n".join(lines) + "\n")
    model = vitspeech.load(finished_recognizer_run)
    data = {"class_path": "vitspeech.TranscribedAudio", "init_args": {"vocabulary": list(model.labels)}}
    checkpoint.save(replace(model, card=model.card | {"data": data}), tmp_path / "listening")
    return subject(str(tmp_path / "listening")), root


def test_recordings_with_transcripts_are_looked_at_where_they_are_loudest(transcribed):
    listening, root = transcribed
    sample = sample_for([listening], str(root), 9)
    assert sample.raw.shape == (3, 16_000) and sample.raw.dtype == torch.int16
    assert sample.labels is None and sample.names is None and sample.middles.tolist() == [7999.5] * 3
    assert sample.origin == "3 validation utterances of TranscribedAudio, the loudest part of each"
    quiet = ((sample.raw - 328).abs() <= 1).float().mean(1).sort().values
    assert quiet[:2].max() < 0.01 and 0.5 < quiet[2] < 0.7  # the shortest is repeated: 0.6 of it is quiet
    (result,) = compare([listening], sample, Plan(inputs=2, answers=2, factors=(1.0,)))
    assert result.main.layers and result.missing.keys() == {"accuracy against what is visible"}


def test_without_a_card_pictures_are_those_of_a_folder(folder, monkeypatch):
    subjects = [subject("timm:resnet10t", size=24)]
    sample = sample_for(subjects, str(folder), 9)
    assert sample.raw.shape == (5, 3, 24, 24) and sample.labels is None and sample.names is None
    assert sorted(sample.raw[:, 0].flatten(1).float().mean(1).tolist()) == [0, 50, 100, 150, 200]
    assert sample.origin == "5 images of album" and sample.first(2).labels is None
    assert torch.equal(sample_for(subjects, str(folder), 2).raw, sample.raw[:2])
    monkeypatch.chdir(folder)
    assert sample_for(subjects, ".", 9).origin == sample.origin


def by_class(folder, *names):
    """A folder with three pictures in a subfolder of each name, and a broken one."""
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for copy in range(3):
            Image.new("RGB", (40, 31), (50 * number, 60 * copy, 20)).save(folder / name / f"{copy}.png")
    (folder / names[0] / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    return str(folder)


def test_any_pictures_take_the_place_of_a_data_set_that_is_not_in_the_folder(seeing, tmp_path):
    known, unknown = by_class(tmp_path / "known", "star", "circle"), by_class(tmp_path / "unknown", "star", "cat")
    for folder in (known, unknown):
        with pytest.warns(UserWarning, match="holds the data set of none|broken.jpg") as said:
            sample = sample_for([seeing, subject("timm:resnet10t", size=24)], folder, 9)
        assert len(said) == 2 and sample.raw.shape == (6, 3, 32, 32) and "images of" in sample.origin
        for picture, label in zip(sample.raw, sample.labels, strict=True):
            assert sample.names[label] == ("star" if picture[0, 0, 0] == 0 else "circle" if folder == known else "cat")
        (result,) = compare([seeing], sample, Plan(inputs=2, answers=6, factors=(1.0,)))
        assert result.visible.quantity == ("accuracy" if folder == known else "agreement")
        if folder == known:
            answers = seeing.network()(seeing.inputs(sample.raw)).argmax(1)
            truth = torch.tensor([seeing.labels.index(sample.names[label]) for label in sample.labels])
            assert result.visible.whole == (answers == truth).double().mean()


def test_of_any_recordings_the_loudest_second_is_taken(hearing, tmp_path):
    for number, seconds in enumerate((0.5, 2, 3)):
        sound = 0.01 * torch.ones(int(22_050 * seconds))
        sound[-11_025:] = 0.5
        soundfile.write(tmp_path / f"{number}.flac", sound.numpy(), 22_050)
    with pytest.warns(UserWarning, match="so any recordings in it are taken"):
        sample = sample_for([hearing], str(tmp_path), 9)
    assert sample.raw.shape == (3, 16_000) and sample.labels is None and sample.middles.tolist() == [7999.5] * 3
    assert ((sample.raw > 15_000).float().mean(1) > 0.45).all()


def test_models_that_name_no_data_need_a_folder():
    with pytest.raises(ValueError, match="no model names its data set; name a folder of images by --data"):
        sample_for([subject("timm:resnet10t")], None, 4)


def test_a_folder_that_is_not_there_or_holds_no_pictures_is_named(tmp_path):
    (tmp_path / "0.png").write_text("no picture")
    for folder, message in ((tmp_path / "nowhere", "nowhere"), (tmp_path / "0.png", "no folder with images$")):
        with pytest.raises((FileNotFoundError, ValueError), match=message):
            sample_for([subject("timm:resnet10t")], str(folder), 4)


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:.* recordings? (is|are) (clipped|silent)")
def test_real_words_lie_in_their_clips():
    sample = sample_for([subject(str(ROOT / "checkpoints" / "speech-commands-truncated"))], None, 8)
    assert sample.raw.shape == (8, 16000) and not {"unknown", "silence"} & {sample.names[n] for n in sample.labels}
