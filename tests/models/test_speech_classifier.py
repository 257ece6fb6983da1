"""The speech classifier: shapes, what its window lets it see, and what it says of that."""

import pytest
import torch
from arguments import nested

from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier

SAMPLES = 16_000


def classifier(dtype=torch.float32, **arguments):
    torch.manual_seed(0)
    tokens = SpeechFrontend(12, mels=17, stride=3)
    return SpeechClassifier(7, tokens, **nested(depth=2, heads=3, **arguments)).to(dtype).eval()


@pytest.mark.parametrize("pooling", ["mean", "self_attentive"])
@pytest.mark.parametrize("positions", [None, "relative", "rotary"])
def test_waveforms_become_one_row_of_logits_each(pooling, positions):
    network = classifier(pooling=pooling, positions=positions)
    assert network(torch.randn(5, SAMPLES)).shape == (5, 7)
    tokens = network.forward_features(torch.randn(5, SAMPLES))
    assert tokens.shape == (5, 31, 12)
    assert network.forward_head(tokens, pre_logits=True).shape == (5, 12)
    assert network.frame_logits(tokens).shape == (5, 31, 7)
    assert network.forward_frames(torch.randn(5, SAMPLES)).shape == (5, 31, 7)


@torch.no_grad()
def test_with_mean_pooling_the_clips_logits_are_the_mean_of_its_frames():
    network, waveforms = classifier(torch.float64), torch.randn(3, SAMPLES, dtype=torch.float64)
    assert torch.allclose(network(waveforms), network.forward_frames(waveforms).mean(1), atol=1e-12)


def test_a_frames_logits_depend_on_its_stated_context_and_on_nothing_else():
    network = classifier(torch.float64, left=3, right=[2, 0])
    hop, window = network.tokens.hop_samples, network.tokens.window_samples
    waveform = torch.randn(1, SAMPLES, dtype=torch.float64, requires_grad=True)
    network.forward_frames(waveform)[0, 12].square().sum().backward()
    seen = waveform.grad[0].nonzero().flatten()
    context = network.context_ms
    back, ahead, delay = (round(16 * context[name]) for name in ("look_back_ms", "look_ahead_ms", "delay_ms"))
    assert (back, ahead, delay) == (6 * hop, 2 * hop, 2 * hop + window)
    # The window's first sample is multiplied by zero, as Hann's window is.
    assert seen.min() == 12 * hop - back + 1 and seen.max() == 12 * hop + delay - 1


@torch.no_grad()
def test_a_clip_of_any_length_from_one_token_on():
    network = classifier()
    assert network(torch.randn(2, network.tokens.window_samples)).shape == (2, 7)
    with pytest.raises(ValueError, match=r"a waveform of 1359 samples is below the 1360 of one token"):
        network(torch.randn(2, network.tokens.window_samples - 1))


def test_several_hops_have_no_logits_for_a_single_token():
    from vitspeech.attention import SelfAttentivePooling

    network = classifier(pooling=SelfAttentivePooling(12, hops=2))
    assert network(torch.randn(2, SAMPLES)).shape == (2, 7)
    with pytest.raises(ValueError, match="2 hops"):
        network.forward_frames(torch.randn(2, SAMPLES))


def test_a_class_token_is_refused():
    with pytest.raises(ValueError, match="class token"):
        classifier(pooling="class")
