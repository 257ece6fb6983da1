"""The costs of encoders: FLOPs and path lengths counted by hand, and what is timed.

Shapes: B batch, T tokens, D width, H hidden width.
"""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.encoders import count_flops, known_path, measure_encoders, path_length
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier, SpeechCNN

CLIP = torch.zeros(1, 16000)
TOKENS = 24  # of 40 ms in one second


def network(encoder, width=8, **options):
    torch.manual_seed(0)
    return SpeechClassifier(3, SpeechFrontend(width, mels=5, stem="stacked", stride=4), encoder, **options)


NOTHING = nn.Identity()
NOTHING.width, NOTHING.receptive_field, NOTHING.forward = 8, (0, 0), lambda x, padding=None: x


def encoder_flops(encoder):
    """Those of the encoder alone: the same network with an encoder that does nothing has the others."""
    return count_flops(network(encoder), CLIP) - count_flops(network(NOTHING), CLIP)


@pytest.mark.parametrize(("cell", "gates"), [("lstm", 4), ("gru", 3)])
def test_the_flops_of_recurrence_are_those_by_hand(cell, gates):
    counted = encoder_flops(RecurrentEncoder(8, 1, cell=cell, bidirectional=False, hidden=5))
    assert counted == 2 * TOKENS * (gates * 5 * (8 + 5) + 5 * 8)
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
    assert count_flops(network(NOTHING), CLIP) == 2 * TOKENS * 4 * 5 * 8 + 2 * 8 * 3


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
    odd = network(RecurrentEncoder(8, 1))
    odd.encoder = nn.LSTM(8, 8)
    assert known_path(odd) == "unknown"


def test_every_network_has_all_numbers_and_only_what_streams_a_delay():
    networks = {
        "full": network({"depth": 1, "heads": 2}),
        "lstm": network(RecurrentEncoder(8, 1, bidirectional=False)),
        "cnn": SpeechCNN(3, SpeechFrontend(8, mels=5, stride=4), depth=1),
    }
    before = [tensor.clone() for part in networks.values() for tensor in part.state_dict().values()]
    found = measure_encoders(networks, batch=4, repeats=1)
    after = [tensor for part in networks.values() for tensor in part.state_dict().values()]
    assert all(map(torch.equal, before, after)) and list(found) == list(networks)
    for name, cost in found.items():
        assert cost.parameters == sum(parameter.numel() for parameter in networks[name].parameters())
        assert min(cost.training_clips_per_second, cost.clips_per_second, cost.single_clips_per_second) > 0
    assert [cost.delay_ms for cost in found.values()] == [None, 55.0, None]  # 25 + 3 · 10 ms of sound in a token
    assert [cost.real_time_factor is None for cost in found.values()] == [True, False, True]
    assert 0 < found["lstm"].real_time_factor < 1
