"""Speech classifiers for whole clips: of any length where the network allows it, else of the trained one."""

import pytest
import torch
from torch import nn

from vitspeech import RecurrentEncoder, SpeechClassifier, SpeechCNN, SpeechFrontend, WindowMLP
from vitspeech.checkpoint.model import Model
from vitspeech.export import export
from vitspeech.export.graphs import session

SETTINGS = {"depth": 1, "heads": 2, "mlp_ratio": 2.0}


def tokens():
    return SpeechFrontend(16, mels=16, stride=4, sample_rate_hz=8000, high_hz=3900)


class Flat(nn.Module):
    """A pooling for 11 tokens alone."""

    factor = 1

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(11 * 16, 16)

    def forward(self, x):
        return self.layer(x.flatten(1))


def exported(network, folder):
    """The metadata, and a function from samples to logits."""
    network = network.eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    preprocessing = {"sample_rate_hz": 8000, "seconds": 0.5}
    metadata = export(Model(network, list("abc"), preprocessing, {}, {}), folder, offline=True)
    running = session((folder / "model.onnx").read_bytes())
    return metadata, lambda samples: torch.from_numpy(running.run(None, {"samples": samples.numpy()})[0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: SpeechClassifier(3, tokens(), SETTINGS, positions="relative", pooling="self_attentive"),
        pytest.param(lambda: SpeechCNN(3, tokens(), depth=1, kernel=3), marks=pytest.mark.slow),
        pytest.param(lambda: SpeechClassifier(3, tokens(), WindowMLP(16, 2, 3, hidden=8)), marks=pytest.mark.slow),
    ],
)
def test_clips_of_any_length_and_batch(make, tmp_path):
    torch.manual_seed(1)
    network = make()
    metadata, run = exported(network, tmp_path / "clips")
    assert metadata["length"] == "any" and metadata["samples"] == 4000
    shortest = metadata["shortest_samples"]
    assert shortest == network.tokens.window_samples == 680
    for batch, length in ((1, shortest), (3, shortest + 319), (2, shortest + 320), (4, 3333), (1, 25_000)):
        samples = 0.3 * torch.randn(batch, length)
        with torch.inference_mode():
            torch.testing.assert_close(run(samples), network(samples), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SpeechClassifier(3, tokens(), SETTINGS, pooling=Flat()),
        # The exporter needs its number of tokens, and writes each of them out.
        pytest.param(lambda: SpeechClassifier(3, tokens(), RecurrentEncoder(16)), marks=pytest.mark.slow),
    ],
)
def test_networks_for_one_length(make, tmp_path):
    torch.manual_seed(1)
    network = make()
    metadata, run = exported(network, tmp_path / "clips")
    assert metadata["length"] == "fixed" and "shortest_samples" not in metadata and metadata["fixed_because"]
    samples = torch.randn(3, metadata["samples"])
    with torch.inference_mode():
        torch.testing.assert_close(run(samples), network(samples), atol=1e-5, rtol=1e-4)
    with pytest.raises(Exception, match="Got invalid dimensions for input: samples"):
        run(torch.randn(3, 5000))
