"""The attention of an utterance's encoder: maps by distance, panels, and what can't be drawn."""

import math
from itertools import pairwise

import numpy
import pytest
import soundfile
import torch
from arguments import nested
from PIL import Image

from vitspeech.checkpoint.model import Model
from vitspeech.decoding.search import Search
from vitspeech.encoders import RecurrentEncoder
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier, SpeechRecognizer, SpeechTranscriber
from vitspeech.receptive.heads.figure import recorded
from vitspeech.receptive.heads.utterance_figure import by_distance, draw_utterance_attention

RATE_HZ, SECONDS = 16_000, 12
CHARACTERS = [" ", "'", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]


def released(kind=SpeechRecognizer, **arguments):
    torch.manual_seed(3)
    arguments = nested(**({"depth": 2, "heads": 2} | arguments))
    network = kind(len(CHARACTERS), SpeechFrontend(16, mels=20, stride=4), **arguments)
    return Model(network.eval(), CHARACTERS, {"sample_rate_hz": RATE_HZ, "units": "characters"}, {}, {})


def saying(model, text):
    """The model with CTC outputs that spell a text, spread over the utterance."""
    network, forward = model.network, model.network.forward

    def scripted(waveforms, lengths=None):
        logits, counts = forward(waveforms, lengths)
        logits = torch.zeros_like(logits)
        logits[..., -1] = 5
        for place, letter in enumerate(text):
            logits[0, int((place + 0.5) / len(text) * logits.shape[1]), CHARACTERS.index(letter)] = 15
        return logits, counts

    network.forward = scripted
    return model


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    time_s = numpy.arange(SECONDS * RATE_HZ) / RATE_HZ
    file = tmp_path_factory.mktemp("long") / "long.wav"
    soundfile.write(file, 0.3 * numpy.sin(2 * math.pi * 300 * time_s) * (time_s % 1 < 0.6), RATE_HZ)
    return file


@pytest.fixture
def drawn(recording, tmp_path, unsaved):
    """Draw a model's figure; returns its panels by their titles, and the figure."""

    def draw(model):
        draw_utterance_attention(model, recording, tmp_path / "out.png")
        axes = [axes for axes in unsaved[-1].axes if axes.get_label() != "<colorbar>" and axes.axison]
        return {one.get_title() or one.get_ylabel() or "words": one for one in axes}, unsaved[-1]

    return draw


def test_entries_of_a_map_are_sorted_by_distance():
    values = torch.arange(16.0).view(4, 4)
    found = by_distance(values, 1, 2)
    assert found.shape == (4, 4)
    assert torch.equal(found[1], values.diagonal())  # each token's weight of itself
    assert found[0, 1:].tolist() == [4, 9, 14] and found[0, 0].isnan()  # of the token before
    assert found[3, :2].tolist() == [2, 7] and found[3, 2:].isnan().all()


def test_recorded_weights_are_those_of_every_block_and_sum_to_one_within_the_window(recording):
    network = released(left=5, right=2).network
    with recorded(network.encoder, lambda weights: weights[0].mean(0)) as weights, torch.no_grad():
        network(torch.randn(1, RATE_HZ))
    assert len(weights) == 2
    for one in weights:
        assert one.sum(1) == pytest.approx(numpy.ones(len(one)), abs=1e-5)
        assert by_distance(one, 5, 2).nansum(0).numpy() == pytest.approx(numpy.ones(len(one)), abs=1e-5)
    with torch.no_grad():
        network(torch.randn(1, RATE_HZ))
    assert len(weights) == 2  # the hooks are gone


def test_a_limited_window_is_drawn_by_distance(drawn):
    panels, _ = drawn(released(left=5, right=2))
    (band,) = (axes for title, axes in panels.items() if title.startswith("last block"))
    values = band.images[0].get_array()
    assert values.shape[0] == 8 and values.shape[1] > 200
    _, _, bottom, top = band.images[0].get_extent()
    assert (top - bottom) / 8 == pytest.approx(0.04) and bottom == pytest.approx(-5.5 * 0.04)
    assert band.get_xlim() == (0, SECONDS)


def test_full_attention_is_drawn_by_the_time_of_the_key(drawn):
    panels, _ = drawn(released())
    (full,) = (axes for title, axes in panels.items() if title.startswith("last block"))
    values = full.images[0].get_array()
    assert values.shape[0] == values.shape[1] > 200 and full.get_ylabel() == "time of key (s)"


def test_each_block_has_a_row_and_a_line(drawn):
    panels, _ = drawn(released(depth=3, left=4, right=1))
    received = next(axes for title, axes in panels.items() if title.startswith("attention received"))
    assert received.images[0].get_array().shape[0] == 3
    lines = panels["mean weight at each distance"].lines[:-1]
    assert len(lines) == 3
    for line in lines:
        assert line.get_xdata() == pytest.approx(0.04 * numpy.arange(-4, 2))
        assert sum(line.get_ydata()) == pytest.approx(100, abs=5)  # a little more than at the ends of the utterance


def test_names_of_words_in_capitals_do_not_overlap(drawn):
    text = "AS YOU KNOW AND AS I HAVE GIVEN YOU PROF I HAVE THE GREATEST ADMIRATION FOR ONE WHOSE WORK HAS WON MWM WI I"
    panels, figure = drawn(saying(released(left=5, right=2), text))
    figure.draw_without_rendering()
    words = panels["words"]
    assert sorted(one.get_text() for one in words.texts) == sorted(text.split())
    lanes = {}
    for box, name in zip(words.patches, words.texts, strict=True):
        extents = [box.get_window_extent(), name.get_window_extent()]
        lanes.setdefault(round(box.get_y(), 3), []).append((min(e.x0 for e in extents), max(e.x1 for e in extents)))
    assert len(lanes) > 1
    for lane in lanes.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(lane)))


def test_a_decoder_model_is_drawn_into_a_file(tmp_path):
    soundfile.write(tmp_path / "short.wav", numpy.random.default_rng(0).normal(0, 0.1, RATE_HZ), RATE_HZ)
    model = released(SpeechTranscriber, depth=1, ctc=True)
    draw_utterance_attention(model, tmp_path / "short.wav", tmp_path / "out.png", search=Search(1, ctc_weight=0.0))
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.format == "PNG" and picture.width == 9 * 130 and picture.height > 900


def test_what_has_no_attention_is_refused(recording, tmp_path):
    tokens = SpeechFrontend(16, mels=20)
    recurrent = released()
    recurrent.network = SpeechRecognizer(28, tokens, RecurrentEncoder(16, depth=1), positions=None)
    with pytest.raises(InputError, match="the encoder of this SpeechRecognizer is RecurrentEncoder, which has no att"):
        draw_utterance_attention(recurrent, recording, tmp_path / "out.png")
    classifier = released()
    classifier.network = SpeechClassifier(4, tokens, encoder={"depth": 1, "heads": 2})
    with pytest.raises(InputError, match="SpeechClassifier does not transcribe recordings; `vitspeech predict"):
        draw_utterance_attention(classifier, recording, tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()
