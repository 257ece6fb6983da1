"""Predictions from files, alone and in folders."""

import numpy
import pytest
import soundfile
import torch
from PIL import Image

import vitspeech
from vitspeech.data.images.shapes import save_example
from vitspeech.errors import InputError


@pytest.fixture
def folder(tmp_path):
    for label in ("star", "ring", "heart", "bar", "cross"):
        save_example(str(tmp_path / f"{label}.png"), label)
    Image.open(tmp_path / "star.png").convert("RGBA").resize((300, 200)).save(tmp_path / "wide.webp")
    return tmp_path


def test_a_folder_has_the_predictions_of_its_files(finished_run, folder):
    model = vitspeech.load(finished_run)
    together = list(vitspeech.predict(model, [folder], batch=4))
    assert [path.name for path, _ in together] == sorted(path.name for path in folder.iterdir())
    for path, labels in together:
        ((_, alone),) = vitspeech.predict(model, [path])
        assert [label for label, _ in alone] == [label for label, _ in labels]
        assert dict(alone) == pytest.approx(dict(labels), abs=1e-5)


def test_a_prediction_equals_the_networks_output_on_the_same_pixels(finished_run, folder):
    model = vitspeech.load(finished_run)
    image = Image.open(folder / "star.png").resize((32, 32), Image.Resampling.BICUBIC)
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(32, 32, 3).permute(2, 0, 1) / 255
    expected = model.network(((pixels - 0.5) / 0.25)[None]).softmax(-1).max().item()
    ((_, labels),) = vitspeech.predict(model, [folder / "star.png"], top=1)
    assert labels[0][1] == pytest.approx(expected, abs=1e-4)


@pytest.fixture
def recordings(tmp_path):
    generator = numpy.random.default_rng(0)
    for name, rate, seconds in (("a.wav", 16_000, 1.0), ("b.flac", 44_100, 0.7), ("c.ogg", 22_050, 2.5)):
        soundfile.write(tmp_path / name, 0.1 * generator.standard_normal((int(rate * seconds), 2)), rate)
    return tmp_path


def test_predictions_of_recordings_equal_the_networks_outputs(finished_speech_run, recordings):
    model = vitspeech.load(finished_speech_run)
    together = list(vitspeech.predict(model, [recordings], top=99))
    assert [path.name for path, _ in together] == ["a.wav", "b.flac", "c.ogg"]
    samples, _ = soundfile.read(recordings / "a.wav", dtype="float32")
    mixed = (torch.from_numpy(samples.mean(1)) * 32768).round() / 32768
    with torch.inference_mode():
        expected = model.network(mixed[None]).softmax(-1)[0]
    assert dict(together[0][1]) == pytest.approx(dict(zip(model.labels, expected.tolist(), strict=True)), abs=1e-5)


def test_errors_are_reported_in_the_order_of_the_files(finished_run, folder):
    model = vitspeech.load(finished_run)
    expected = dict(vitspeech.predict(model, [folder]))
    for name in ("a.png", "cross.png", "z.png"):
        (folder / name).write_bytes(b"")
    for batch in (1, 2, 5, 99):
        found = []
        options = {"batch": batch, "on_error": lambda path, error: found.append((path.name, str(error)))}  # noqa: B023
        for path, labels in vitspeech.predict(model, [folder], **options):
            found.append(path.name)
            assert dict(labels) == pytest.approx(dict(expected[path]), abs=1e-5)
        broken = [(name, f"{folder / name}: empty (0 bytes)") for name in ("a.png", "cross.png", "z.png")]
        assert found == [broken[0], "bar.png", broken[1], "heart.png", "ring.png", "star.png", "wide.webp", broken[2]]
    with pytest.raises(ValueError, match=r"a\.png: empty"):
        list(vitspeech.predict(model, [folder]))


def test_silent_recordings_are_warned_of(finished_speech_run, recordings):
    soundfile.write(recordings / "silent.wav", numpy.zeros(16_000), 16_000)
    with pytest.warns(UserWarning, match=r"1 recording is silent .*silent\.wav"):
        assert len(list(vitspeech.predict(vitspeech.load(finished_speech_run), [recordings]))) == 4


def test_a_recording_above_a_minute_is_refused_with_advice_that_fits_every_model(finished_speech_run, tmp_path):
    soundfile.write(tmp_path / "long.wav", numpy.zeros(61 * 16_000), 16_000)
    with pytest.raises(InputError, match="above 60 s; cut it, or use `vitspeech stream` with a model that can be"):
        list(vitspeech.predict(vitspeech.load(finished_speech_run), [tmp_path / "long.wav"]))
