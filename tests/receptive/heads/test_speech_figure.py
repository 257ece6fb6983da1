"""Attention weights of speech classifiers, and their figure."""

import math

import numpy
import pytest
import soundfile
import torch
from arguments import nested
from PIL import Image

from vitspeech.attention import SelfAttentivePooling, window_mask
from vitspeech.checkpoint.model import Model
from vitspeech.encoders import RecurrentEncoder
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.inference.predict import read_input
from vitspeech.models import SpeechClassifier
from vitspeech.receptive.heads import figure as speech_attention
from vitspeech.receptive.heads.figure import draw_attention, forward_with_attention

RATE_HZ = 16_000
LABELS = ["_silence_", "left", "right", "up", "$5 $6"]
KEYWORDS = {"sample_rate_hz": RATE_HZ, "seconds": 1.0}


def classifier(**arguments):
    torch.manual_seed(0)
    arguments = {"depth": 2, "heads": 4, **arguments}
    return SpeechClassifier(len(LABELS), SpeechFrontend(16, mels=20, stride=3), **nested(**arguments)).eval()


def released(network, labels=LABELS, preprocessing=KEYWORDS):
    return Model(network.eval(), labels, preprocessing, {}, {})


@pytest.fixture
def recording(tmp_path):
    time_s = numpy.arange(RATE_HZ) / RATE_HZ
    chirp = 0.3 * numpy.sin(2 * math.pi * (200 + 900 * time_s) * time_s) * (abs(time_s - 0.5) < 0.2)
    soundfile.write(tmp_path / "chirp.wav", chirp, RATE_HZ)
    return tmp_path / "chirp.wav"


@pytest.fixture
def waveform():
    return 0.1 * torch.randn(RATE_HZ, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("options", [{}, {"positions": "relative", "score": "additive"}, {"left": 5, "right": [3, 0]}])
@torch.no_grad()
def test_one_pass_returns_the_networks_own_logits_and_tokens_and_weights_that_sum_to_one(options, waveform):
    network = classifier(**options)
    attention = forward_with_attention(network, waveform[None])
    weights = attention.weights
    assert torch.equal(attention.logits, network(waveform[None]))
    assert torch.equal(attention.tokens, network.forward_features(waveform[None]))
    assert weights.shape == (2, 1, 4, 31, 31) and (weights >= 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)


@pytest.mark.parametrize("window", [{}, {"left": 4, "right": 2}])
@torch.no_grad()
def test_weights_times_values_give_each_layers_own_output(window, waveform):
    network = classifier(**window)
    x, layers = network.tokens(waveform[None]), forward_with_attention(network, waveform[None]).weights[:, 0]
    for block, weights in zip(network.encoder.blocks, layers, strict=True):
        attention, normed = block.attention, block.attention_norm(x)
        values = attention.value(normed)[0].view(31, 4, 4)
        attended = torch.einsum("hts,shk->thk", weights, values).reshape(31, 16)
        assert torch.allclose(attention.output(attended), attention(normed)[0], atol=1e-5)
        x = block(x)


@pytest.mark.parametrize(
    "options",
    [
        {"left": 6, "right": 2, "pooling": "self_attentive"},
        {"pooling": SelfAttentivePooling(16, hops=3), "normalizer": "relu", "depth": 1},
    ],
)
def test_a_figure_is_drawn(options, recording, tmp_path):
    draw_attention(released(classifier(**options)), recording, tmp_path / "out.png")
    picture = numpy.asarray(Image.open(tmp_path / "out.png").convert("L"))
    assert picture.shape[1] == 1820 and 500 < picture.shape[0] < 1300
    assert picture.std() > 20 and len(numpy.unique(picture)) > 100


@pytest.fixture
def drawn(monkeypatch):
    """The values of every map that is drawn."""
    maps, draw = [], speech_attention.draw_relative

    def record(axes, values, extent):
        maps.append(values)
        return draw(axes, values, extent)

    monkeypatch.setattr(speech_attention, "draw_relative", record)
    return maps


def recurrent(pooling):
    torch.manual_seed(0)
    tokens = SpeechFrontend(16, mels=20, stride=3)
    return SpeechClassifier(len(LABELS), tokens, RecurrentEncoder(16, 1), pooling=pooling).eval()


@torch.no_grad()
def test_of_a_bilstm_with_self_attentive_pooling_the_hops_are_drawn_alone(recording, tmp_path, drawn):
    network = recurrent(SelfAttentivePooling(16, hops=3, penalty=1.0))
    draw_attention(released(network), recording, tmp_path / "out.png")
    (hops,) = drawn
    weights = network.pooling.weights(network.forward_features(read_input(recording, KEYWORDS)))[0]
    assert hops.shape == (3, 31) and hops == pytest.approx(31 * weights.numpy()) and hops.mean(1) == pytest.approx(1)
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.size[0] == round(8.4 * 130)


def test_what_has_no_weights_is_refused(recording, tmp_path):
    with pytest.raises(InputError, match=r"SelfAttentivePooling; RecurrentEncoder and MeanPooling have none$"):
        draw_attention(released(recurrent("mean")), recording, tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()


@pytest.mark.parametrize("window", [{}, {"left": 6, "right": [2, 0]}])
def test_uniform_attention_is_drawn_as_one_inside_the_window(window, recording, tmp_path, drawn):
    network = classifier(**window)
    for block in network.encoder.blocks:
        torch.nn.init.zeros_(block.attention.query.weight)
    draw_attention(released(network), recording, tmp_path / "out.png")
    received, pairs = drawn
    assert received.shape == (2, 31) and received == pytest.approx(1, abs=1e-4)
    inside = ~numpy.isnan(pairs)
    assert pairs[inside] == pytest.approx(1, abs=1e-4)
    assert numpy.array_equal(inside, window_mask(31, 31, *((6, 0) if window else (None, None))).numpy())


def test_a_clip_of_one_token_and_two_labels_can_be_drawn(recording, tmp_path):
    network = SpeechClassifier(2, SpeechFrontend(16, mels=20), encoder={"depth": 1, "heads": 2}).eval()
    assert forward_with_attention(network, torch.zeros(1, 1600)).tokens.shape[1] == 1
    draw_attention(released(network, ["no", "yes"], KEYWORDS | {"seconds": 0.1}), recording, tmp_path / "out")
    assert (tmp_path / "out").read_bytes().startswith(b"\x89PNG")


def test_dollar_signs_in_labels_are_no_mathematics(recording, tmp_path):
    network = SpeechClassifier(2, SpeechFrontend(16, mels=20), encoder={"depth": 1, "heads": 2}).eval()
    draw_attention(released(network, ["a$_{$", "$x_{$"]), recording, tmp_path / "out.png")
    assert (tmp_path / "out.png").exists()


def test_predict_prints_the_figures_path_after_the_predictions_and_draws_one_file_only(
    command, finished_speech_run, recording, tmp_path
):
    result = command("predict", finished_speech_run, recording, "--attention", tmp_path / "out.png")
    labels, figure = result.stdout.splitlines()
    assert labels.startswith(f"{recording}: ") and figure == str(tmp_path / "out.png")
    (tmp_path / "out.png").unlink()
    for paths in ([recording, recording], [recording.parent]):
        result = command("predict", finished_speech_run, *paths, "--attention", tmp_path / "out.png")
        assert "--attention draws one file" in result.stderr and not (tmp_path / "out.png").exists()
