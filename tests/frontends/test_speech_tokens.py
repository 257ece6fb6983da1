"""Waveform to tokens: which samples each token sees, how many there are, what is passed on.

Shapes: B = 3 waveforms, M = 17 mel bins, D = 11.
"""

import pytest
import torch

from vitspeech.frontends import LogMel, SpecAugment, SpeechFrontend

# Stem, stride, hop and window of a token, worked out by hand for frames of 400 samples every 160.
CASES = pytest.mark.parametrize(
    "stem, stride, hop, window",
    [
        ("stacked", 1, 160, 400),
        ("stacked", 3, 480, 720),
        ("convolutional", 1, 160, 1360),
        ("convolutional", 2, 320, 1360),
        ("convolutional", 5, 800, 1360),
    ],
)
BOTH = pytest.mark.parametrize("stem", ["stacked", "convolutional"])


def waveforms(samples=4801, batch=3, dtype=torch.float32):
    return 0.1 * torch.randn(batch, samples, generator=torch.Generator().manual_seed(0), dtype=dtype)


def made(**arguments):
    torch.manual_seed(0)
    return SpeechFrontend(11, **{"mels": 17} | arguments).eval()


@CASES
def test_token_depends_only_on_the_samples_of_its_field(stem, stride, hop, window):
    tokens = made(stem=stem, stride=stride).double()
    assert (tokens.hop_samples, tokens.window_samples) == (hop, window)
    for token in (0, 1, 4):
        given = waveforms(dtype=torch.float64).requires_grad_()
        (tokens(given)[:, token] * torch.arange(11)).sum().backward()
        seen = (given.grad != 0).all(0)
        assert torch.equal(seen, (given.grad != 0).any(0))
        # Hann's window begins with a zero, so a token's first sample has no weight.
        assert seen.nonzero().flatten().tolist() == list(range(token * hop + 1, token * hop + window))


@CASES
def test_there_are_as_many_tokens_as_fit_whole(stem, stride, hop, window):
    tokens = made(stem=stem, stride=stride)
    counts = {0: 0, window - 1: 0, window: 1, window + hop - 1: 1, window + hop: 2, window + 5 * hop + hop // 2: 6}
    for samples, count in counts.items():
        assert tokens(waveforms(samples)).shape == (3, count, 11)


@BOTH
def test_hop_and_window_of_a_token_follow_from_those_of_the_log_mel_frames(stem):
    settings = dict(sample_rate_hz=8000, window_ms=29, hop_ms=7, low_hz=90, high_hz=3700, epsilon=1e-2)
    tokens, given = made(stem=stem, stride=3, **settings), waveforms()
    assert torch.equal(tokens.log_mel(given), LogMel(17, **settings)(given))
    assert torch.equal(tokens(given), tokens.frames(LogMel(17, **settings)(given)))
    assert tokens.hop_samples == 3 * 56
    assert tokens.window_samples == 232 + (2 if stem == "stacked" else 6) * 56
    assert tokens.milliseconds(56) == 7


def test_an_unknown_stem_is_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match="stem='linear' is unknown; known: stacked, convolutional"):
        SpeechFrontend(11, stem="linear")


@BOTH
def test_a_number_out_of_its_range_is_an_error(stem):
    with pytest.raises(ValueError, match="stride=0"):
        SpeechFrontend(11, stem=stem, stride=0)


def test_a_hidden_frame_is_the_mean_frame_of_training():
    everything = SpecAugment(time_masks=40, time_frames=40, mel_masks=0)
    tokens, given = made(stem="stacked", stride=1, spec_augment=everything), waveforms()
    tokens.log_mel.fit(given)
    torch.manual_seed(0)
    hidden = tokens.train()(given)
    # The token of a frame of zeros is the bias.
    same = (hidden == tokens.frames.project.bias).all(-1)
    assert same.float().mean() > 0.9
    assert not (tokens.eval()(given) == tokens.frames.project.bias).all(-1).any()
