"""The costs of encoders: FLOPs and path lengths counted by hand, and what is timed.

Shapes: B batch, T tokens, D width, H hidden width.
"""

import dataclasses

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.encoders import count_flops, known_path, measure_encoders, path_length
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier, SpeechCNN

CLIP = torch.zeros(1, 16000)
TOKENS = 24  # of 40 ms in one second


def network(encoder, width=8, **options):
    torch.manual_seed(0)
    return SpeechClassifier(3, SpeechFrontend(width, mels=5, stem="stacked", stride=4), encoder, **options)


def encoder_flops(encoder, width=8):
    """Those of the encoder alone: the same network with an encoder that does nothing has the others."""
    nothing = nn.Identity()
    nothing.width, nothing.reach = width, (0, 0)
    nothing.forward = lambda x, padding=None: x
    return count_flops(network(encoder, width), CLIP) - count_flops(network(nothing, width), CLIP)


class Loop(nn.Module):
    """An LSTM or GRU layer written as linear layers, as far as their matrix products go."""

    width, reach = 8, (None, None)

    def __init__(self, hidden: int, gates: int) -> None:
        super().__init__()
        self.given, self.state = nn.Linear(8, gates * hidden), nn.Linear(hidden, gates * hidden)
        self.output = nn.Linear(hidden, 8)

    def forward(self, x, padding=None):
        state, outputs = x.new_zeros(len(x), self.state.in_features), []
        for token in x.unbind(1):
            gates = self.given(token) + self.state(state)
            state = gates[:, : state.shape[1]].tanh()
            outputs.append(state)
        return self.output(torch.stack(outputs, 1))


@pytest.mark.parametrize(("cell", "gates"), [("lstm", 4), ("gru", 3)])
def test_the_flops_of_recurrence_are_those_of_a_loop_of_linear_layers(cell, gates):
    counted = encoder_flops(RecurrentEncoder(8, 1, cell=cell, bidirectional=False, hidden=5))
    assert counted == encoder_flops(Loop(5, gates)) == 2 * TOKENS * (gates * 5 * (8 + 5) + 5 * 8)
    both = encoder_flops(RecurrentEncoder(8, 2, cell=cell, hidden=4))  # two layers of width 8, no projection
    assert both == 2 * TOKENS * 2 * 2 * gates * 4 * (8 + 4)


def test_the_flops_of_attention_and_of_a_window_are_those_by_hand():
    counted = encoder_flops({"depth": 3, "heads": 2, "mlp_ratio": 2.0})
    projections, scores_and_sums, mlp = 4 * 8 * 8, 2 * TOKENS * 8, 2 * 8 * 16
    assert counted == 3 * 2 * TOKENS * (projections + scores_and_sums + mlp)
    window = encoder_flops(WindowMLP(8, left=2, right=1, hidden=6, depth=2))
    assert window == 2 * TOKENS * (4 * 8 * 6 + 6 * 6 + 6 * 8)


def test_the_front_end_does_not_count_but_stem_and_head_do():
    bare = network(RecurrentEncoder(8, 1))
    with FlopCounterMode(display=False) as everything:
        bare.tokens.log_mel(CLIP)
    assert everything.get_total_flops() > 0
    nothing = nn.Identity()
    nothing.width, nothing.reach = 8, (0, 0)
    nothing.forward = lambda x, padding=None: x
    assert count_flops(network(nothing), CLIP) == 2 * TOKENS * 4 * 5 * 8 + 2 * 8 * 3


@pytest.mark.parametrize(
    ("encoder", "expected"),
    [
        ({"depth": 1, "heads": 2}, 1),
        ({"depth": 4, "heads": 2, "left": 8, "right": 2}, 4),  # 25 tokens of 40 ms
        ({"depth": 6, "heads": 2, "left": 25, "right": 0}, 1),
        ({"depth": 3, "heads": 2, "left": 8, "right": 8}, None),  # reaches back 24
        ({"depth": 3, "heads": 2, "left": [2, 20, 5], "right": 0}, 2),
        ({"depth": 3, "heads": 2, "left": [2, None, 5], "right": 0}, 1),
        ({"depth": 5, "heads": 2, "left": 4, "right": 0, "convolution": 7}, 5),  # five convolutions of 6 back
        (RecurrentEncoder(8, 1), 25),
        (RecurrentEncoder(8, 4, cell="gru", bidirectional=False), 25),
        (WindowMLP(8, left=25, right=0), 1),
        (WindowMLP(8, left=24, right=24), None),
    ],
)
def test_path_lengths_are_those_of_vaswani_et_al(encoder, expected):
    assert path_length(network(encoder)) == expected


def test_path_lengths_of_convolutions():
    tokens = SpeechFrontend(8, mels=5, stride=4)
    assert path_length(SpeechCNN(3, tokens, depth=3, kernel=7)) is None  # six convolutions of 3 tokens back
    assert path_length(SpeechCNN(3, tokens, depth=5, kernel=7)) == 9
    assert path_length(SpeechCNN(3, tokens, depth=3, kernel=7), seconds=0.4) == 4
    with pytest.raises(InputError, match="LSTM: the path length of this kind"):
        odd = network(RecurrentEncoder(8, 1))
        odd.encoder = nn.LSTM(8, 8)
        path_length(odd)


@pytest.fixture(scope="module")
def costs():
    few = {"batch": 4, "repeats": 2}
    networks = {
        "full": network({"depth": 1, "heads": 2}),
        "lstm": network(RecurrentEncoder(8, 1, bidirectional=False)),
        "cnn": SpeechCNN(3, SpeechFrontend(8, mels=5, stride=4), depth=1),
    }
    before = [tensor.clone() for part in networks.values() for tensor in part.state_dict().values()]
    found = measure_encoders(networks, **few)
    after = [tensor for part in networks.values() for tensor in part.state_dict().values()]
    assert all(map(torch.equal, before, after))
    return networks, found


def test_every_network_has_all_numbers(costs):
    networks, found = costs
    assert list(found) == list(networks)
    for name, cost in found.items():
        assert cost.parameters == sum(parameter.numel() for parameter in networks[name].parameters())
        numbers = dataclasses.asdict(cost)
        assert all(numbers[key] > 0 for key in numbers if key.endswith("per_second"))


def test_only_what_streams_has_a_delay_and_a_real_time_factor(costs):
    _, found = costs
    assert [found[name].delay_ms for name in found] == [None, 55.0, None]  # 25 + 3 · 10 ms of sound in a token
    assert [found[name].real_time_factor is None for name in found] == [True, False, True]
    assert 0 < found["lstm"].real_time_factor < 1


def test_the_path_of_an_encoder_of_the_users_own_is_unknown():
    own = nn.Identity()
    own.width, own.reach = 8, (0, 0)
    own.forward = lambda x, padding=None: x
    assert known_path(network(own)) == "unknown" and known_path(network(RecurrentEncoder(8, 1))) == 25
