"""Fields of recurrent layers and of the window MLP: by their construction, exact gradients and finite differences.

Shapes: B batch, T = 9 tokens, D = 4 width.
"""

from math import inf

import pytest
import torch
from receptive_networks import MEL, noise
from torch import nn

from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier
from vitspeech.receptive.fields.effective import effective_fields
from vitspeech.receptive.fields.layers import INPUT, Layer, default_layers
from vitspeech.receptive.fields.theoretical import read_graph

ENCODERS = {
    "lstm": lambda width: RecurrentEncoder(width, 2, bidirectional=False),
    "gru": lambda width: RecurrentEncoder(width, 2, cell="gru", bidirectional=False, dropout=0.1),
    "bilstm": lambda width: RecurrentEncoder(width, 2),
    "bigru": lambda width: RecurrentEncoder(width, 1, cell="gru"),
    "window": lambda width: WindowMLP(width, 2, 1, hidden=8),
}
REACH = {"lstm": (inf, 0), "gru": (inf, 0), "bilstm": (inf, inf), "bigru": (inf, inf), "window": (2, 1)}


def speech_network(kind):
    torch.manual_seed(0)
    return SpeechClassifier(3, SpeechFrontend(8, mels=5, stride=2), ENCODERS[kind](8)).eval().requires_grad_(False)


@pytest.mark.parametrize("kind", ENCODERS)
def test_the_theoretical_field_is_where_exact_gradients_are_not_zero(kind):
    torch.manual_seed(0)
    encoder, x = ENCODERS[kind](4).double().eval(), noise(1, 9, 4).double().requires_grad_()
    with read_graph(encoder) as reader:
        output = encoder(x)
    for token in range(9):
        gradient = torch.autograd.grad(output[0, token].sum(), x, retain_graph=True)[0][0]
        span = reader.field(output, x, (token, 0))[0]
        assert (span.low, span.high, span.center) == (token - REACH[kind][0], token + REACH[kind][1], token)
        places = range(max(span.low, 0), min(span.high, 8) + 1) if kind == "window" else range(9)
        assert gradient.abs().sum(1).nonzero().flatten().tolist() == [n for n in places if n <= span.high]


@pytest.mark.parametrize("kind", ENCODERS)
def test_the_effective_field_is_that_of_finite_differences(kind):
    torch.manual_seed(0)
    network = nn.Sequential(ENCODERS[kind](4), nn.Linear(4, 1)).double().eval().requires_grad_(False)
    x = noise(2, 9, 4).double()
    layer = Layer("1", "frames")
    field = effective_fields(network, x, [layer], source=Layer(INPUT, "frames"), probe_units=1)[0].cumulative
    ((token, _),) = field.probe_units
    step, expected = 1e-5, torch.zeros(2, 9)
    for place in range(9):
        for channel in range(4):
            nudge = torch.zeros_like(x)
            nudge[:, place, channel] = step
            change = (network(x + nudge) - network(x - nudge))[:, token, 0] / (2 * step)
            expected[:, place] += change.square().float()
    torch.testing.assert_close(field.on_source()[..., 0], expected, rtol=1e-4, atol=1e-9)
    assert field.known


@pytest.mark.parametrize("kind", ENCODERS)
def test_speech_networks_have_the_field_of_their_encoder_and_stem(kind):
    network, (back, ahead) = speech_network(kind), REACH[kind]
    layers = default_layers(network, 0.1 * noise(2, 8000))
    assert [layer.name for layer in layers] == [
        "tokens.frames",
        *(f"encoder.blocks.{number}" for number in range(len(network.encoder.blocks))),
    ]
    fields = effective_fields(network, 0.1 * noise(2, 8000), layers, source=MEL)[-1]
    span, rows = fields.cumulative.theoretical[0], fields.cumulative.rows
    assert (span.low, span.high) == (-2 * back - 3, 2 * ahead + 3)  # the stem has a stride of 2 and 7 frames
    lit = fields.cumulative.energy.sum((0, 2)) > 0
    assert not lit[(rows < span.low) | (rows > span.high)].any() and fields.cumulative.known
    assert lit[(rows >= max(span.low, -15)) & (rows <= min(span.high, 15))].all()
    assert fields.cumulative_cut is None and fields.block_cut is None  # the gates of a GRU are no shortcuts


def test_an_encoder_of_ones_own_without_blocks_is_one_layer():
    network = speech_network("lstm")
    network.encoder = nn.Sequential(nn.Linear(8, 8))
    assert [layer.name for layer in default_layers(network, noise(2, 8000))] == ["tokens.frames", "encoder"]


def test_layers_are_in_evaluation_mode_again_afterwards():
    network = nn.Sequential(nn.Linear(4, 4), nn.LSTM(4, 4, 2, batch_first=True, dropout=0.5), First()).eval()
    before = network(noise(2, 9, 4))
    fields = [
        effective_fields(network, noise(2, 9, 4), [Layer("2", "frames")], source=Layer("0", "frames"))[0].cumulative
        for _ in range(2)
    ]
    assert torch.equal(fields[0].energy, fields[1].energy)  # nothing was dropped
    assert not any(module.training for module in network.modules()) and network[1].dropout == 0.5
    assert torch.equal(network(noise(2, 9, 4)), before)


class First(nn.Module):
    def forward(self, outputs):
        return outputs[0]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["lstm", "bilstm", "gru"])
def test_fields_on_a_gpu_are_those_on_the_cpu(kind):
    network, clips, layer = speech_network(kind), 0.1 * noise(2, 8000), Layer("encoder.blocks.0", "frames")
    on_cpu = effective_fields(network, clips, [layer], source=MEL)[0].cumulative
    on_gpu = effective_fields(network.cuda(), clips.cuda(), [layer], source=MEL)[0].cumulative
    torch.testing.assert_close(on_gpu.mean, on_cpu.mean, rtol=1e-3, atol=1e-6)
    assert on_gpu.theoretical == on_cpu.theoretical and on_gpu.known
