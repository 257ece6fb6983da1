"""Every released model is exported, and ONNX Runtime computes with the graph what the network computes.

The inputs are not those that were compared before the folder was written.
"""

import copy
import json
from pathlib import Path

import numpy
import pytest
import torch
from tiny import ROOT

import vitspeech
from vitspeech.data.audio.reading import read_clip
from vitspeech.data.clips import spoken_words
from vitspeech.data.images.reading import read_picture
from vitspeech.export.graphs import session
from vitspeech.export.speech import steps
from vitspeech.export.stream_step import StreamStep

CHECKPOINTS = ROOT / "checkpoints"
IMAGES = ("vit-cifar10", "cnn-cifar10", pytest.param("hybrid-cifar10", marks=pytest.mark.slow))
CLIPS = ("speech-commands", "speech-commands-cnn")
STREAMS = (
    "speech-commands-truncated",
    "keywords-12",
    "spoken-words-ctc",
    "spoken-words-labels",
    pytest.param("speech-commands-causal", marks=pytest.mark.slow),  # as others, and minutes of exports in all
    pytest.param("librispeech-5h-ctc", marks=pytest.mark.slow),
    pytest.param("speech-encoder", marks=pytest.mark.slow),
    pytest.param("wake-words", marks=pytest.mark.slow),
)
SEQUENCES = ("spoken-words-attention",)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording of four synthesized words."""
    spoken_words.save_example(tmp_path / "words.wav", ["up", "zero", "left", "bed"])
    return tmp_path / "words.wav"


def graph_of(folder: Path):
    return session((folder / "model.onnx").read_bytes())


def metadata_of(folder: Path) -> dict:
    return json.loads((folder / "model.json").read_text())


def close(computed: numpy.ndarray, expected: torch.Tensor) -> None:
    """The bound before writing is a hundred times higher."""
    assert computed.shape == tuple(expected.shape)
    assert abs(computed - expected.numpy()).max() < 1e-5 * max(float(expected.abs().max()), 10)


def test_each_released_model_is_in_one_of_the_lists():
    names = [name if isinstance(name, str) else name.values[0] for name in IMAGES + CLIPS + STREAMS + SEQUENCES]
    assert sorted(names) == sorted(card.parent.name for card in CHECKPOINTS.glob("*/card.json"))


@pytest.mark.parametrize("name", IMAGES)
def test_images(exported, name, star):
    folder, model = exported(name), vitspeech.load(CHECKPOINTS / name)
    assert metadata_of(folder)["kind"] == "images"
    pixels = read_picture(star, metadata_of(folder)["side"]).movedim(0, 2)
    pixels = torch.stack((pixels, pixels.flip(1), 255 - pixels, torch.randint(256, pixels.shape).to(torch.uint8)))
    probabilities, *_ = graph_of(folder).run(None, {"pixels": pixels.numpy()})
    ((_, best),) = vitspeech.predict(model, [star], top=10)
    by_label = dict(zip(metadata_of(folder)["labels"], probabilities[0].tolist(), strict=True))
    assert by_label == pytest.approx(dict(best), abs=1e-6)
    with torch.inference_mode():
        mean, std = (torch.tensor(model.preprocessing[key])[:, None, None] for key in ("mean", "std"))
        close(probabilities, model.network((pixels.movedim(3, 1) / 255 - mean) / std).softmax(-1))


@pytest.mark.parametrize("name", CLIPS)
def test_clips(exported, name, recording):
    folder, model = exported(name), vitspeech.load(CHECKPOINTS / name)
    metadata = metadata_of(folder)
    assert metadata["kind"] == "clips"
    samples = read_clip(recording, metadata["sample_rate_hz"]) / 32768
    assert metadata["length"] == "any"
    for length in (metadata["samples"], metadata["shortest_samples"], 27_777):
        clips = samples.unfold(0, length, 3_500)[:3].contiguous()
        with torch.inference_mode():
            close(graph_of(folder).run(None, {"samples": clips.numpy()})[0], model.network(clips))


@pytest.mark.parametrize("name", STREAMS)
def test_streams(exported, name, recording):
    folder, model = exported(name), vitspeech.load(CHECKPOINTS / name)
    metadata, step = metadata_of(folder), StreamStep(model.network)
    assert metadata["kind"] == "stream"
    samples = read_clip(recording, metadata["sample_rate_hz"]) / 32768
    # In double precision: on some processors the rounding of torch and that of ONNX Runtime add up to the bound.
    whole = vitspeech.stream(copy.deepcopy(model.network).double())
    expected = torch.cat((whole.push(samples.double()), whole.flush()))
    close(steps(graph_of(folder), step, samples.numpy()), expected)
    for name in ("hop_samples", "lead_in_samples", "first_step", "steps_ahead", "state_size"):
        assert metadata[name] == getattr(step, name)
    assert metadata["delay_ms"] == 1000 * whole.latency_samples / whole.sample_rate_hz


@pytest.mark.parametrize("name", SEQUENCES)
def test_encoder_decoders(exported, name, recording):
    folder, model = exported(name), vitspeech.load(CHECKPOINTS / name)
    metadata = metadata_of(folder)
    assert metadata["kind"] == "encoder-decoder"
    samples = read_clip(recording, metadata["sample_rate_hz"])[None] / 32768
    ctc, _, cache = graph_of(folder).run(None, {"samples": samples.numpy()})
    assert metadata["cache_shape"] == list(cache.shape)
    with torch.inference_mode():
        close(ctc, model.network.forward_ctc(model.network.encode(samples)[0]).log_softmax(-1))
