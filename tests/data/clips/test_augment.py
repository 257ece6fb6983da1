"""Augmentation of clips: each change alone against its definition, pink noise, and the responses of rooms.

Shapes: B = 97 clips, N = 1009 samples at 1000 Hz, so that a sample lasts a millisecond.
"""

import numpy
import pytest
import torch
from torch.testing import assert_close

from vitspeech.data.batches import SpeechBatch
from vitspeech.data.clips.augment import WaveformAugment, convolved, reverberate, room_responses
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.utterances.augment import SequenceAugment

BATCH, SAMPLES, RATE_HZ = 97, 1009, 1000
MIDDLE = SAMPLES // 2
NOISE = torch.from_numpy(numpy.random.default_rng(0).integers(-9000, 9000, 5003, dtype=numpy.int16))
RAMP = torch.arange(1000, 6003, dtype=torch.int16)  # noise whose every sample tells its place: 1000 more


def only(**settings):
    """An augmentation that does nothing but what it is told to."""
    return WaveformAugment(**{"shift_ms": 0, "speed": 0, "noise_prob": 0, "synthetic": 0, "gain_db": 0} | settings)


def changed(waveforms, seed=0, noise=NOISE, **settings):
    torch.manual_seed(seed)
    after = only(**settings)(waveforms, noise, RATE_HZ)
    assert after.shape == waveforms.shape and after.dtype == waveforms.dtype
    return after


def clips(batch=BATCH, loudness=0.1, seed=0):
    return loudness * torch.randn(batch, SAMPLES, generator=torch.Generator().manual_seed(seed))


def bump(center=MIDDLE, width=5.0):
    """A clip with one smooth bump, or one for each center."""
    place = torch.arange(SAMPLES, dtype=torch.float64)
    return (-((place - center) ** 2) / (2 * width**2)).exp()


def centers(waveforms):
    """Where each clip's bump is: (B, 1)."""
    weights = waveforms.double()
    return (weights * torch.arange(SAMPLES)).sum(1, keepdim=True) / weights.sum(1, keepdim=True)


def decibels(ratio):
    return 20 * torch.log10(ratio)


def test_all_at_zero_is_the_identity():
    assert torch.equal(changed(clips()), clips())


def test_shift_moves_both_ways_by_up_to_its_bound_and_keeps_the_form():
    after = changed(bump().float().expand(BATCH, -1), shift_ms=37)
    shift = centers(after) - MIDDLE
    assert shift.abs().max() <= 37.01 and shift.min() < -30 and shift.max() > 30
    assert len(shift.round().unique()) > 40
    # The bump at its new place, as its formula has it: nothing but the place has changed.
    assert_close(after.double(), bump(MIDDLE + shift), atol=3e-3, rtol=0)
    assert_close(after.square().sum(1).double(), bump().square().sum().expand(BATCH), atol=0, rtol=1e-2)


def test_what_a_shift_leaves_is_silence():
    after = changed(torch.ones(BATCH, SAMPLES), shift_ms=37)
    silent = after == 0
    assert 25 < silent.sum(1).max() <= 37
    assert silent[:, 0].any() and silent[:, -1].any() and not silent[:, 37:-37].any()


def test_speed_changes_a_tones_frequency_both_ways_within_its_bound():
    hz = 100.0
    seconds = (torch.arange(SAMPLES, dtype=torch.float64) - MIDDLE) / RATE_HZ
    after = changed((2 * torch.pi * hz * seconds).sin().float().expand(BATCH, -1), speed=0.15).double()
    inner = after[:, 100:-100]  # a clip spoken faster ends in silence
    window = torch.hann_window(inner.shape[1], dtype=torch.float64)
    found = torch.fft.rfft(inner * window, 2**16).abs().argmax(1, keepdim=True) * RATE_HZ / 2**16
    assert 84.9 < found.min() < 88 and 112 < found.max() < 115.1
    # Read around the middle, which stays where it is.
    assert_close(inner, (2 * torch.pi * found * seconds[100:-100]).sin(), atol=0.06, rtol=0)
    assert after[:, MIDDLE].abs().max() < 1e-3


def test_noise_is_within_the_range_of_decibels_below_the_clip():
    given = clips() * torch.logspace(-2, 0, BATCH)[:, None]
    added = changed(given, noise_prob=1, noise_snr_db=(-5, 17)) - given
    ratio = decibels(given.square().mean(1).sqrt() / added.square().mean(1).sqrt())
    assert -5.01 < ratio.min() < -4 and 16 < ratio.max() < 17.01
    assert abs(ratio.mean() - 6) < 2


@pytest.mark.parametrize("prob", [0.1, 0.5, 0.9])
def test_noise_prob_is_the_fraction_of_clips_that_get_noise(prob):
    given = clips(batch=499)
    after = changed(given, noise_prob=prob)
    noisy = (after != given).any(1)
    assert abs(noisy.float().mean().item() - prob) < 0.07
    assert torch.equal(after[~noisy], given[~noisy])


def test_noise_is_a_stretch_of_the_recording_from_all_over_it():
    given = clips()
    added = (changed(given, noise_prob=1, noise_snr_db=(-40, -40), noise=RAMP) - given).double()
    slope = (added[:, -1:] - added[:, :1]) / (SAMPLES - 1)
    start = added[:, :1] / slope - 1000
    assert_close(added, slope * (1000 + start + torch.arange(SAMPLES)), atol=1e-3, rtol=1e-3)
    assert -3 < start.min() < 250 and 3994 - 250 < start.max() < 3994 + 3
    assert len(start.round().unique()) > 80


def test_gain_is_one_factor_a_clip_within_its_decibels():
    given = clips()
    ratio = changed(given, gain_db=6) / given
    assert_close(ratio, ratio[:, :1].expand(-1, SAMPLES), atol=0, rtol=1e-5)
    gain = decibels(ratio[:, 0])
    assert -6.001 < gain.min() < -5 and 5 < gain.max() < 6.001
    assert abs(gain.mean()) < 1


@pytest.mark.parametrize("noise", [NOISE, torch.zeros(5003, dtype=torch.int16)], ids=["noise", "silence"])
def test_a_silent_clip_stays_finite_and_all_but_silent(noise):
    torch.manual_seed(0)
    after = WaveformAugment(noise_prob=1, synthetic=0)(torch.zeros(BATCH, SAMPLES), noise, RATE_HZ)
    assert after.isfinite().all() and after.square().mean(1).sqrt().max() <= 2.01e-4  # 1e-4 and 6 dB of gain
    assert bool(after.any()) == bool(noise.any())


@pytest.mark.parametrize(
    "setting",
    [{"shift_ms": -1.0}, {"speed": 1.0}, {"noise_prob": 1.1}, {"synthetic": -0.1}, {"household": 1.1}],
    ids=str,
)
def test_a_number_out_of_its_range_is_an_error_that_names_it(setting):
    ((name, value),) = setting.items()
    with pytest.raises(ValueError, match=f"{name}={value} is not a number from 0"):
        WaveformAugment(**setting)


def test_pink_noise_is_the_same_every_time_and_draws_nothing_from_the_global_generator():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first = pink_noise(1601)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(pink_noise(1601), first)
    assert first.shape == (16_010,) and first.dtype == torch.int16 and first.abs().max() == 32767


# Rooms, of 200 clips of 4000 samples.

ROOM_HZ = 8000


def test_responses_begin_with_the_direct_sound_and_have_the_energy_one():
    torch.manual_seed(0)
    responses = room_responses(200, (0.1, 0.5), ROOM_HZ)
    assert responses.shape == (200, 4000)
    assert_close(responses.square().sum(1), torch.ones(200))
    assert (responses[:, 1:16] == 0).all() and (responses[:, 16] != 0).all()  # no echo within 2 ms
    direct_db = 10 * torch.log10(responses[:, 0] ** 2 / responses[:, 1:].square().sum(1))
    assert -0.01 <= direct_db.min() < 2 and 18 < direct_db.max() <= 20.01


@pytest.mark.parametrize("decay_s", [0.2, 0.45])
def test_echoes_decay_by_sixty_decibels_in_the_reverberation_time(decay_s):
    torch.manual_seed(0)
    power = room_responses(2000, (decay_s, decay_s), ROOM_HZ).square().mean(0)
    early, late = (power[round(part * decay_s * ROOM_HZ) :][:200].mean() for part in (0.1, 0.6))
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
    after = reverberate(clips, 0.5, (0.1, 0.6), ROOM_HZ)
    changed = (after != clips).any(1)
    assert 70 < changed.sum() < 130 and clips[:, 1000].eq(1).all()  # the input is not changed
    assert (after[:, :999].abs() < 1e-6).all() and (after[changed][:, 1016:1100].abs().sum(1) > 1e-3).all()
    assert torch.equal(reverberate(clips, 0.0, (0.1, 0.6), ROOM_HZ), clips)


def test_clips_get_rooms_before_the_noise():
    settings = {"shift_ms": 0, "speed": 0, "noise_prob": 0, "gain_db": 0}
    clips, noise = torch.randn(20, 1000, generator=torch.Generator().manual_seed(0)), torch.zeros(2000).short()
    torch.manual_seed(1)
    after = WaveformAugment(**settings, room_prob=1.0)(clips, noise, ROOM_HZ)
    torch.manual_seed(1)
    assert torch.equal(after, reverberate(clips, 1.0, (0.1, 0.6), ROOM_HZ)) and not torch.allclose(after, clips)


def test_utterances_have_no_echoes_in_their_padding():
    torch.manual_seed(0)
    lengths = torch.tensor([3000, 4000])
    waveforms = torch.randn(2, 4000)
    waveforms[0, 3000:] = 0
    speech = SpeechBatch(waveforms, lengths, torch.zeros(2, 1).long(), torch.zeros(2, 1, 2).long())
    after = SequenceAugment(speed=0, gain_db=0, room_prob=1.0)(speech, ROOM_HZ)
    assert (after.waveforms[0, 3000:] == 0).all() and torch.equal(after.lengths, lengths)
    assert not torch.allclose(after.waveforms[0, :3000], waveforms[0, :3000])
