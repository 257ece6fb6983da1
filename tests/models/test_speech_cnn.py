"""The convolutional baseline for speech."""

import torch

from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechCNN


def network(**arguments):
    torch.manual_seed(0)
    return SpeechCNN(7, SpeechFrontend(11, mels=17, stride=2), **arguments)


def test_a_token_reaches_as_far_as_its_kernels_do():
    made = network(depth=2, kernel=5).double().eval()
    seen = []
    made.norm.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    waveform = torch.randn(1, 16_000, dtype=torch.float64, requires_grad=True)
    made(waveform)
    seen[0][0, :, 20].square().sum().backward()
    reach = waveform.grad[0].nonzero().flatten()
    hop, window = made.tokens.hop_samples, made.tokens.window_samples
    # Four convolutions of two tokens on either side; the first sample of Hann's window is zero.
    assert reach.min() == (20 - 8) * hop + 1 and reach.max() == (20 + 8) * hop + window - 1


def test_it_learns():
    made = network(depth=1, kernel=3)
    waveforms, labels = torch.randn(14, 16_000) * torch.linspace(0.01, 1, 14)[:, None], torch.arange(14) // 2
    made.initialize(waveforms)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-2)
    losses = []
    for _ in range(25):
        loss = torch.nn.functional.cross_entropy(made(waveforms), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
