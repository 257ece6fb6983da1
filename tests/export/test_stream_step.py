"""Steps of a stream against `vitspeech.stream`, for random networks of every kind that streams; and refusals."""

import itertools
import random
from types import SimpleNamespace

import numpy
import pytest
import torch
from torch import nn

import vitspeech
from vitspeech import RecurrentEncoder, SpeechClassifier, SpeechFrontend, SpeechLabeler, SpeechRecognizer, WindowMLP
from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError
from vitspeech.export import export
from vitspeech.export.graphs import session
from vitspeech.export.speech import steps
from vitspeech.export.stream_step import StreamStep

SCORES = ("scaled_dot", "dot", "general", "additive", "cosine")
POSITIONS = ("rotary", "relative", "sinusoidal", None)
# Strides of 9 and 11 frames have a hop above the 7 frames, or the 1,360 samples, that a convolutional token covers.
STEMS = (("convolutional", 1), ("convolutional", 4), ("convolutional", 9), ("convolutional", 11), ("stacked", 3))
CONTEXT = {"depth": 2, "heads": 2, "left": [3, 0], "right": [1, 2]}
OTHERS = {
    "lstm": lambda: RecurrentEncoder(12, bidirectional=False),
    "gru": lambda: RecurrentEncoder(12, 3, cell="gru", bidirectional=False, hidden=7),
    "window": lambda: WindowMLP(12, 3, 2, hidden=9),
    "causal window": lambda: WindowMLP(12, 4, 0, hidden=9, depth=1),
    "window ahead": lambda: WindowMLP(12, 0, 3, hidden=9),
}


def tokens(stem="convolutional", stride=4):
    return SpeechFrontend(12, mels=10, stem=stem, stride=stride)


def randomized(network, seed):
    """All parameters are moved, those of scores and norms included."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network.eval()


def in_torch(step):
    """A step in double precision as a session of ONNX Runtime: random networks may amplify the rounding of floats."""

    def run(_, feeds):
        with torch.inference_mode():
            return [part.numpy() for part in step(*(torch.from_numpy(part).double() for part in feeds.values()))]

    classes = step.network.frame_logits(torch.zeros(1, 1, 12).double()).shape[-1]
    return SimpleNamespace(run=run, get_outputs=lambda: [SimpleNamespace(shape=[1, classes])])


def check(step, running, lengths, tolerance=1e-10):
    """The rows of all steps equal those of `vitspeech.stream`, for noise that begins and ends loudly."""
    for length in lengths:
        samples = (0.3 * torch.randn(length)).to(next(step.parameters()))
        whole = vitspeech.stream(step.network)
        expected = torch.cat((whole.push(samples), whole.flush())).numpy()
        computed = steps(running, step, samples.numpy())
        assert computed.shape == expected.shape
        if len(expected):
            assert abs(computed - expected).max() <= tolerance * abs(expected).max()


def lengths_of(step):
    """None, fewer than a token, exactly one, one sample less than two, and more tokens than any window."""
    window, hop = step.network.tokens.window_samples, step.hop_samples
    return 0, window - 1, window, window + hop - 1, window + 5 * hop, window + 23 * hop + hop // 2


@pytest.mark.parametrize("score", SCORES)
def test_attention_of_every_kind(score):
    choices = random.Random(score)
    for seed, (positions, normalizer) in enumerate(itertools.product(POSITIONS, ("softmax", "relu"))):
        contexts = {side: [choices.randint(0, 4) for _ in range(3)] for side in ("left", "right")}
        settings = {"depth": 3, "heads": 2, "score": score, "normalizer": normalizer, "mlp_ratio": 1.0, **contexts}
        settings |= {"norm": choices.choice(("pre", "post"))}
        network = SpeechClassifier(5, tokens(*choices.choice(STEMS)), settings, positions=positions)
        step = StreamStep(randomized(network, seed).double()).eval()
        assert step.steps_ahead == sum(contexts["right"])
        check(step, in_torch(step), lengths_of(step))


@pytest.mark.parametrize("right", [0, [3, 0, 2]])
def test_convolutions(right):
    settings = {"depth": 3, "heads": 2, "left": 3, "right": [1, 0, 2], "convolution": 5, "convolution_right": right}
    for seed, norm in enumerate(("pre", "post")):
        step = StreamStep(randomized(SpeechClassifier(5, tokens(), settings | {"norm": norm}), seed).double()).eval()
        assert step.steps_ahead == 3 + (5 if right else 0)
        check(step, in_torch(step), lengths_of(step))


@pytest.mark.parametrize("stem, stride", STEMS)
def test_every_stem(stem, stride):
    network = SpeechRecognizer(4, tokens(stem, stride), {"depth": 2, "heads": 2, "left": 2, "right": [0, 1]})
    step = StreamStep(randomized(network, stride).double()).eval()
    check(step, in_torch(step), (*lengths_of(step), *range(5_000, 5_000 + 2 * step.hop_samples, 331)))


@pytest.mark.parametrize("name", OTHERS)
def test_encoders_without_attention(name):
    step = StreamStep(randomized(SpeechClassifier(5, tokens(), OTHERS[name]()), 1).double()).eval()
    check(step, in_torch(step), lengths_of(step))


def test_a_labeler_has_a_row_for_each_frame():
    settings = {"depth": 1, "heads": 2, "left": 3, "right": 1}
    step = StreamStep(randomized(SpeechLabeler(5, tokens(stride=3), settings), 1).double()).eval()
    zeros = (torch.zeros(size, dtype=torch.double) for size in ((1, 480), (1,), (1, step.state_size)))
    assert step(*zeros)[0].shape == (3, 5)
    check(step, in_torch(step), lengths_of(step))


def test_steps_that_are_not_valid_change_no_later_row():
    """A caller may pass any samples before the first and after the last step of a recording."""
    settings = {"depth": 2, "heads": 2, "left": 3, "right": 2}
    for encoder in (settings, OTHERS["lstm"](), OTHERS["window"]()):
        step = StreamStep(randomized(SpeechClassifier(5, tokens(), encoder), 1)).eval()
        samples, rows = torch.randn(8, 1, step.hop_samples), []
        for loud in (0.0, 7.0):
            state, outputs = torch.zeros(1, step.state_size), []
            for number in range(10 + step.steps_ahead):
                valid = 3 <= number < 8
                # The first valid token has samples of the steps before it.
                heard = samples[number] if 1 <= number < 8 else torch.full((1, step.hop_samples), loud)
                logits, valid_out, state = step(heard, torch.tensor([float(valid)]), state)
                outputs += [logits] if valid_out > 0.5 else []
            rows.append(torch.cat(outputs))
        assert len(rows[0]) == 5 and torch.equal(*rows)


EXPORTED = {
    "additive": lambda: SpeechClassifier(
        3, tokens("stacked", 2), CONTEXT | {"score": "additive", "normalizer": "relu"}
    ),
    "labeler": lambda: SpeechLabeler(3, tokens(stride=9), CONTEXT | {"norm": "post"}, positions="relative"),
    "sinusoidal": lambda: SpeechRecognizer(2, tokens(), CONTEXT, positions="sinusoidal"),
    "convolution": lambda: SpeechRecognizer(2, tokens(), CONTEXT | {"convolution": 5, "convolution_right": [0, 1]}),
    "gru": lambda: SpeechClassifier(3, tokens(), OTHERS["gru"]()),
    "window": lambda: SpeechClassifier(3, tokens(), OTHERS["window"]()),
}


@pytest.mark.parametrize(
    "name", [*list(EXPORTED)[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in list(EXPORTED)[2:])]
)
def test_exported_steps(name, tmp_path):
    network = randomized(EXPORTED[name](), 1)
    units = {"units": "words"} if isinstance(network, SpeechRecognizer) else {"seconds": 1.0}
    model = Model(network, ["a", "b", "c"][: 2 if "units" in units else 3], {"sample_rate_hz": 16_000} | units, {}, {})
    export(model, tmp_path / "stream")
    step = StreamStep(network)
    running = session((tmp_path / "stream" / "model.onnx").read_bytes())
    check(step, running, lengths_of(step), tolerance=1e-5)
    noise = numpy.zeros((1, step.hop_samples), numpy.float32)
    with pytest.raises(Exception, match=r"Required inputs .*state"):
        running.run(None, {"samples": noise, "valid": numpy.ones(1, numpy.float32)})


class Foreign(nn.Identity):
    """An encoder of a user's own that streams."""

    width, receptive_field, stream = 12, (0, 0), None


@pytest.mark.parametrize(
    "encoder, positions, message",
    [
        ({"depth": 2, "heads": 2, "right": 0}, "rotary", r"left=\[None, None\], .* train it with a limited `left`"),
        ({"depth": 1, "heads": 2, "left": 2, "right": 0}, "learned", "learned positions end after their table"),
        (Foreign(), None, "its encoder Foreign is none of Encoder, RecurrentEncoder and WindowMLP"),
    ],
)
def test_what_can_not_be_exported_as_a_stream(encoder, positions, message):
    network = SpeechClassifier(3, tokens(), encoder, positions=positions).eval()
    with pytest.raises(InputError, match=f"^SpeechClassifier can't be exported as a stream: {message}"):
        StreamStep(network)


def test_weights_of_an_encoder_without_attention_are_refused(tmp_path):
    network = SpeechClassifier(3, tokens(), OTHERS["window"]()).eval()
    model = Model(network, list("abc"), {"sample_rate_hz": 16_000, "seconds": 1.0}, {}, {})
    with pytest.raises(InputError, match="without attention weights"):
        export(model, tmp_path / "stream", attention=True)
