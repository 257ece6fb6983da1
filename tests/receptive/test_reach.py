"""How far back and ahead a network hears: encoders whose reach is known by construction."""

import pytest
import torch
from torch import nn

from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models import SpeechClassifier
from vitspeech.receptive import effective_reach_ms

CLIPS = 0.1 * torch.randn(4, 32000, generator=torch.Generator().manual_seed(0))


class Shift(nn.Module):
    """Each output is the token a number of places before (after, if negative), in a circle."""

    width, reach = 8, (None, None)

    def __init__(self, places: int) -> None:
        super().__init__()
        self.places = places

    def forward(self, x, padding=None):
        return x.roll(self.places, 1)


def reach(encoder, clips=CLIPS):
    torch.manual_seed(0)
    network = SpeechClassifier(3, SpeechFrontend(8, mels=5, stem="stacked", stride=4), encoder)
    return effective_reach_ms(network.eval(), clips)


@pytest.mark.parametrize("places", [0, 3, 7, -5])
def test_a_shift_reaches_as_far_as_it_shifts(places):
    back, ahead = reach(Shift(places))  # tokens of four frames of 10 ms, ±15 ms around their center
    for number, side in ((places, back), (-places, ahead)):
        if number > 0:
            assert 40 * number - 15 <= side <= 40 * number + 15
        elif number == 0:
            assert side <= 15


def test_a_causal_network_hears_ahead_only_within_its_token():
    back, ahead = reach(RecurrentEncoder(8, 2, bidirectional=False))
    assert back > 15 and ahead <= 15
    assert min(reach(RecurrentEncoder(8, 2))) > 15


def test_a_window_bounds_both():
    back, ahead = reach(WindowMLP(8, left=6, right=2, hidden=16))
    assert 100 < back <= 6 * 40 + 15 and 15 < ahead <= 2 * 40 + 15


def test_one_clip_is_refused():
    with pytest.raises(InputError, match="at least 2"):
        reach(Shift(0), torch.zeros(1, 16000))
