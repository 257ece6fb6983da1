import pytest
import torch
from torch.testing import assert_close

from vitspeech import SpeechFrontend, SpeechLabeler, WindowMLP, stream

WINDOWS = [(3, 2), (0, 0), (4, 0), (0, 5), (30, 30)]


def encoder(left, right, **options):
    torch.manual_seed(0)
    return WindowMLP(6, left, right, hidden=10, **options).double().eval()


def tokens():
    return torch.randn(2, 23, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("left, right", WINDOWS)
def test_output_is_an_mlp_of_the_concatenated_window(left, right):
    ours, x = encoder(left, right, depth=2), tokens()
    rows = []
    for t in range(23):
        places = range(t - left, t + right + 1)
        window = torch.cat([x[:, p] if 0 <= p < 23 else torch.zeros_like(x[:, 0]) for p in places], dim=-1)
        first, *rest = ours.blocks[0]
        hidden = window @ first.weight.T + first.bias
        for layer in rest:
            hidden = layer(hidden)
        rows.append(ours.output(ours.blocks[1](hidden)))
    assert_close(ours(x), torch.stack(rows, dim=1))


@pytest.mark.parametrize("left, right", WINDOWS)
def test_padding_counts_as_the_end(left, right):
    ours, x, lengths = encoder(left, right), tokens(), torch.tensor([23, 8])
    padded = ours(x, torch.arange(23) < lengths[:, None])
    assert_close(padded[0], ours(x[:1])[0])
    assert_close(padded[1, :8], ours(x[1:, :8])[0])


@pytest.mark.parametrize("left, right", WINDOWS)
@pytest.mark.parametrize("cuts", [(), (1,), (0, 4, 5, 20), tuple(range(23))])
def test_a_stream_equals_the_whole_sequence(left, right, cuts):
    ours, x = encoder(left, right), tokens()
    running = ours.stream()
    for _ in range(2):  # flush restarts
        outputs = [running.push(part) for part in x.tensor_split(cuts, dim=1)]
        assert torch.cat(outputs, dim=1).shape[1] == max(23 - right, 0)
        assert_close(torch.cat([*outputs, running.flush(x)], dim=1), ours(x))


def test_flushing_an_empty_stream_gives_nothing():
    running = encoder(3, 2).stream()
    assert running.flush(tokens()).shape == (2, 0, 6)


def test_audio_streams_through_a_labeler():
    torch.manual_seed(0)
    network = SpeechLabeler(3, SpeechFrontend(16, mels=20), WindowMLP(16, 3, 4, hidden=8)).double().eval()
    audio = torch.randn(16_000, dtype=torch.float64) / 10
    running = stream(network)
    logits = torch.cat([*(running.push(part) for part in audio.split(777)), running.flush()])
    assert_close(logits, network.forward_frames(audio[None])[0])
    assert running.latency_samples == 4 * network.tokens.hop_samples + network.tokens.window_samples


@pytest.mark.parametrize("name, value", [("left", -1), ("right", -1), ("hidden", 0), ("depth", 0)])
def test_numbers_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value} is not a number from"):
        WindowMLP(**{name: value})
