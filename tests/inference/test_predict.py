"""From files to labels: the same answer however the files come."""

import numpy
import pytest
import soundfile
import torch
from PIL import Image

import vitspeech
from vitspeech.data.images.shapes import save_example


@pytest.fixture
def folder(tmp_path):
    for label in ("star", "ring", "heart", "bar", "cross"):
        save_example(str(tmp_path / f"{label}.png"), label)
    Image.open(tmp_path / "star.png").convert("RGBA").resize((300, 200)).save(tmp_path / "wide.webp")
    return tmp_path


def test_a_folder_gives_what_its_files_give_one_by_one(finished_run, folder):
    model = vitspeech.load(finished_run)
    together = list(vitspeech.predict(model, [folder], batch=4))
    assert [path.name for path, _ in together] == [
        "bar.png",
        "cross.png",
        "heart.png",
        "ring.png",
        "star.png",
        "wide.webp",
    ]
    for path, labels in together:
        ((_, alone),) = vitspeech.predict(model, [path])
        assert [label for label, _ in alone] == [label for label, _ in labels]
        assert [share for _, share in alone] == pytest.approx([share for _, share in labels], abs=1e-5)


def test_probabilities_fall_and_sum_to_one(finished_run, folder):
    ((_, labels),) = vitspeech.predict(vitspeech.load(finished_run), [folder / "star.png"], top=99)
    shares = [share for _, share in labels]
    assert len(shares) == 10 and sum(shares) == pytest.approx(1, abs=1e-5)
    assert shares == sorted(shares, reverse=True)


def test_prediction_equals_the_network_on_the_same_pixels(finished_run, folder):
    model = vitspeech.load(finished_run)
    image = Image.open(folder / "star.png").resize((32, 32), Image.Resampling.BICUBIC)
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(32, 32, 3).permute(2, 0, 1) / 255
    expected = model.network(((pixels - 0.5) / 0.25)[None]).softmax(-1).max().item()
    ((_, labels),) = vitspeech.predict(model, [folder / "star.png"], top=1)
    assert labels[0][1] == pytest.approx(expected, abs=1e-4)


def test_no_label_at_all_is_refused(finished_run, folder):
    with pytest.raises(ValueError, match="top=0 is below 1"):
        next(vitspeech.predict(vitspeech.load(finished_run), [folder], top=0))


@pytest.fixture
def recordings(tmp_path):
    generator = numpy.random.default_rng(0)
    for name, rate, seconds in (("a.wav", 16_000, 1.0), ("b.flac", 44_100, 0.7), ("c.ogg", 22_050, 2.5)):
        soundfile.write(tmp_path / name, 0.1 * generator.standard_normal((int(rate * seconds), 2)), rate)
    return tmp_path


def test_recordings_of_any_rate_and_length_give_what_the_network_gives(finished_speech_run, recordings):
    model = vitspeech.load(finished_speech_run)
    together = list(vitspeech.predict(model, [recordings], top=99))
    assert [path.name for path, _ in together] == ["a.wav", "b.flac", "c.ogg"]
    samples, _ = soundfile.read(recordings / "a.wav", dtype="float32")
    mixed = (torch.from_numpy(samples.mean(1)) * 32768).round() / 32768
    with torch.inference_mode():
        expected = model.network(mixed[None]).softmax(-1)[0]
    assert dict(together[0][1]) == pytest.approx(dict(zip(model.labels, expected.tolist(), strict=True)), abs=1e-5)


def test_a_model_that_hears_takes_no_pictures_and_the_other_way_round(
    finished_run, finished_speech_run, folder, recordings
):
    with pytest.raises(ValueError, match=r"star\.png: not a recording"):
        list(vitspeech.predict(vitspeech.load(finished_speech_run), [folder / "star.png"]))
    with pytest.raises(ValueError, match=r"a\.wav: not a picture"):
        list(vitspeech.predict(vitspeech.load(finished_run), [recordings / "a.wav"]))


@pytest.mark.parametrize(
    ("fixture", "name", "use"),
    [
        ("finished_recognizer_run", "SpeechRecognizer", r"vitspeech\.transcribe \(scripts/transcribe\.py\)"),
        ("finished_transcriber_run", "SpeechTranscriber", r"vitspeech\.transcribe \(scripts/transcribe\.py\)"),
        ("finished_labeler_run", "SpeechLabeler", r"vitspeech\.stream"),
    ],
)
def test_a_model_of_utterances_is_refused_and_what_to_use_is_said(request, recordings, fixture, name, use):
    model = vitspeech.load(request.getfixturevalue(fixture))
    with pytest.raises(ValueError, match=f"{name} takes utterances of any length, .*; use {use}$"):
        next(vitspeech.predict(model, [recordings]))
