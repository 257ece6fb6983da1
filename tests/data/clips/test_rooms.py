"""Responses of rooms: their energy, their decay, and which clips get one.

Shapes: B = 200 clips, N = 4000 samples at 8 kHz.
"""

import numpy
import pytest
import torch
from torch.testing import assert_close

from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.rooms import convolved, reverberate, room_responses
from vitspeech.data.utterances.augment import SequenceAugment
from vitspeech.data.utterances.batch import SpeechBatch

RATE_HZ = 8000


def test_responses_begin_with_the_direct_sound_and_have_the_energy_one():
    torch.manual_seed(0)
    responses = room_responses(200, (0.1, 0.5), RATE_HZ)
    assert responses.shape == (200, 4000)
    assert_close(responses.square().sum(1), torch.ones(200))
    assert (responses[:, 1:16] == 0).all() and (responses[:, 16] != 0).all()  # no echo within 2 ms
    direct_db = 10 * torch.log10(responses[:, 0] ** 2 / responses[:, 1:].square().sum(1))
    assert -0.01 <= direct_db.min() < 2 and 18 < direct_db.max() <= 20.01


@pytest.mark.parametrize("decay_s", [0.2, 0.45])
def test_echoes_decay_by_sixty_decibels_in_the_reverberation_time(decay_s):
    torch.manual_seed(0)
    power = room_responses(2000, (decay_s, decay_s), RATE_HZ).square().mean(0)
    early, late = (power[round(part * decay_s * RATE_HZ) :][:200].mean() for part in (0.1, 0.6))
    assert 10 * torch.log10(early / late) == pytest.approx(30, abs=1)  # half of the time between them


@pytest.mark.parametrize("samples", [1, 2, 100, 4001])
def test_the_convolution_is_that_of_the_definition(samples):
    waveforms, responses = torch.randn(2, samples, dtype=torch.float64), torch.randn(2, 37, dtype=torch.float64)
    defined = [numpy.convolve(*pair)[:samples] for pair in zip(waveforms.numpy(), responses.numpy(), strict=True)]
    assert_close(convolved(waveforms, responses), torch.tensor(numpy.stack(defined)))


def test_a_click_becomes_the_response_of_a_room_and_other_clips_stay():
    torch.manual_seed(0)
    clips = torch.zeros(200, 4000)
    clips[:, 1000] = 1
    after = reverberate(clips, 0.5, (0.1, 0.6), RATE_HZ)
    changed = (after != clips).any(1)
    assert 70 < changed.sum() < 130 and clips[:, 1000].eq(1).all()  # the input is not changed
    assert (after[:, :999].abs() < 1e-6).all() and (after[changed][:, 1016:1100].abs().sum(1) > 1e-3).all()
    assert torch.equal(reverberate(clips, 0.0, (0.1, 0.6), RATE_HZ), clips)


def test_clips_get_rooms_before_the_noise():
    settings = {"shift_ms": 0, "speed": 0, "noise_prob": 0, "gain_db": 0}
    clips, noise = torch.randn(20, 1000, generator=torch.Generator().manual_seed(0)), torch.zeros(2000).short()
    torch.manual_seed(1)
    after = WaveformAugment(**settings, room_prob=1.0)(clips, noise, RATE_HZ)
    torch.manual_seed(1)
    assert torch.equal(after, reverberate(clips, 1.0, (0.1, 0.6), RATE_HZ)) and not torch.allclose(after, clips)


def test_utterances_have_no_echoes_in_their_padding():
    torch.manual_seed(0)
    lengths = torch.tensor([3000, 4000])
    waveforms = torch.randn(2, 4000)
    waveforms[0, 3000:] = 0
    speech = SpeechBatch(waveforms, lengths, torch.zeros(2, 1).long(), torch.zeros(2, 1, 2).long())
    after = SequenceAugment(speed=0, gain_db=0, room_prob=1.0)(speech, RATE_HZ)
    assert (after.waveforms[0, 3000:] == 0).all() and torch.equal(after.lengths, lengths)
    assert not torch.allclose(after.waveforms[0, :3000], waveforms[0, :3000])
