"""Log-mel frames against torchaudio's mel spectrogram; what a frame sees, how it is scaled, its errors.

Shapes: B = 3 waveforms, M = 23 mel bins, W = 400 samples a frame, H = 160 from frame to frame.
"""

import copy
from math import log10

import numpy
import pytest
import torch
from torch import nn
from torch.nn.functional import pad
from torch.testing import assert_close
from torchaudio.functional import melscale_fbanks
from torchaudio.transforms import MelSpectrogram

from vitspeech.errors import InputError
from vitspeech.frontends import LogMel
from vitspeech.frontends.log_mel import LONGEST, SLICE, mel_filters

WINDOW, HOP = 400, 160


def noise(samples=4801, batch=3, seed=0, loudness=0.1, dtype=torch.float32):
    return loudness * torch.randn(batch, samples, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def torchaudios(waveforms, mels, rate_hz=16_000, window=WINDOW, hop=HOP, transform=512, low_hz=20.0, high_hz=7600.0):
    """(B, N) -> (B, F, M). torchaudio centers the window within the transform, so that many zeros go before."""
    spectrogram = MelSpectrogram(
        rate_hz,
        n_fft=transform,
        win_length=window,
        hop_length=hop,
        f_min=low_hz,
        f_max=high_hz,
        n_mels=mels,
        power=2.0,
        center=False,
        norm=None,
        mel_scale="htk",
    )
    before = (transform - window) // 2
    padded = pad(waveforms, (before, transform - window - before))
    return spectrogram.to(waveforms.dtype)(padded).transpose(1, 2)


@pytest.mark.parametrize("mels", [80, 40])
def test_energies_and_their_logarithm_equal_torchaudio(mels):
    front_end, waveforms = LogMel(mels).double(), noise(dtype=torch.float64)
    expected = torchaudios(waveforms, mels)
    assert expected.shape == (3, 28, mels) and expected.min() > 0
    assert_close(front_end.energies(waveforms), expected, rtol=1e-6, atol=0)
    assert_close(front_end(waveforms), (expected + 1e-6).log(), rtol=1e-6, atol=1e-12)


def test_single_precision_equals_torchaudio_in_double_precision():
    waveforms = noise()
    expected = torchaudios(waveforms.double(), 80)
    assert_close(LogMel().energies(waveforms).double(), expected, rtol=1e-5, atol=0)
    assert_close(LogMel()(waveforms).double(), (expected + 1e-6).log(), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:At least one mel filterbank")
@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 16_000, 44_100])
@pytest.mark.parametrize("mels", [1, 23, 80, 160])
def test_the_filters_are_torchaudios_to_the_last_bit(mels, rate_hz):
    for low_hz, high_hz in ((0.0, rate_hz / 2), (20.0, 3800.5)):
        expected = melscale_fbanks(257, low_hz, high_hz, mels, rate_hz)
        assert torch.equal(mel_filters(257, low_hz, high_hz, mels, rate_hz), expected)


def test_another_rate_window_hop_and_range_equal_torchaudio():
    waveforms = noise(dtype=torch.float64)
    settings = dict(sample_rate_hz=11_000, window_ms=31, hop_ms=7, low_hz=60, high_hz=5300, epsilon=1e-3)
    expected = torchaudios(waveforms, 23, 11_000, 341, 77, 512, 60.0, 5300.0)
    assert_close(LogMel(23, **settings).double()(waveforms), (expected + 1e-3).log(), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("samples, frames", [(0, 0), (399, 0), (400, 1), (559, 1), (560, 2), (16_000, 98)])
def test_there_are_as_many_frames_as_fit_whole(samples, frames):
    given = noise(samples)
    assert LogMel(23)(given).shape == (3, frames, 23)
    if frames:
        assert frames == len(numpy.lib.stride_tricks.sliding_window_view(given[0].numpy(), WINDOW)[::HOP])


@pytest.mark.parametrize("frame", [0, 11, 27])
def test_frame_depends_only_on_its_samples(frame):
    waveforms = noise(dtype=torch.float64).requires_grad_()
    LogMel(23).double()(waveforms)[:, frame].sum().backward()
    seen = (waveforms.grad != 0).all(0)
    assert torch.equal(seen, (waveforms.grad != 0).any(0))
    # Hann's window begins with a zero, so a frame's first sample has no weight.
    assert seen.nonzero().flatten().tolist() == list(range(frame * HOP + 1, frame * HOP + WINDOW))


@pytest.mark.parametrize("samples, batch", [(16_000, 19), (24_001, 11), (SLICE * 16_000 + 1601, 2)])
def test_more_waveforms_than_a_slice_equal_one_by_one(samples, batch):
    front_end, given = LogMel(23), noise(samples, batch)
    assert batch * samples > SLICE * front_end.sample_rate_hz
    together, alone = front_end(given), torch.cat([front_end(one[None]) for one in given])
    assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_mean_and_deviation_are_saved_and_window_and_filters_are_not():
    fitted, loaded = LogMel(23), LogMel(23)
    fitted.fit(noise(seed=1))
    assert set(fitted.state_dict()) == {"floor", "mean", "std"} and not list(fitted.parameters())
    assert not torch.equal(loaded(noise()), fitted(noise()))
    loaded.load_state_dict(fitted.state_dict())
    assert torch.equal(loaded(noise()), fitted(noise()))


def test_autocast_changes_nothing():
    front_end, given = LogMel(23), noise()
    front_end.fit(given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (given @ given.T).dtype == torch.bfloat16  # autocast is on
        under = front_end(given)
    assert under.dtype == torch.float32 and torch.equal(under, front_end(given))


def test_gradient_equals_finite_differences():
    front_end = LogMel(3, sample_rate_hz=8000, window_ms=2, hop_ms=1, low_hz=0, high_hz=4000).double()
    given = noise(29, batch=2, dtype=torch.float64).requires_grad_()
    assert front_end(given).shape == (2, 2, 3)
    assert torch.autograd.gradcheck(front_end, given)


@pytest.mark.parametrize("loudness", [0.0, 1e-8, 0.1, 1.0])
def test_gradient_is_finite_for_silence_too(loudness):
    waveforms = noise(loudness=loudness).requires_grad_()
    LogMel()(waveforms).square().sum().backward()
    assert waveforms.grad.isfinite().all()
    assert bool(waveforms.grad.any()) == (loudness > 0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"mels": 0}, "mels=0"),
        ({"hop_ms": 0}, "hop_ms=0"),
        ({"hop_ms": 26.0}, "hop_ms=26.0"),
        ({"window_ms": float("nan")}, "window_ms=nan"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"low_hz": 7600}, "low_hz=7600"),
        ({"sample_rate_hz": 8000}, "high_hz=7600.0 is not within"),
    ],
)
def test_number_out_of_its_range_is_an_error_that_names_it(arguments, message):
    with pytest.raises(ValueError, match=message):
        LogMel(**arguments)


@pytest.mark.parametrize("mels", [11, 40, 80])
def test_bins_lie_where_the_mel_scale_says(mels):
    found = LogMel(mels).centers_hz

    def mel(hz):
        return 2595 * log10(1 + hz / 700)

    steps = [mel(20) + (mel(7600) - mel(20)) * step / (mels + 1) for step in range(mels + 2)]
    edges = [700 * (10 ** (step / 2595) - 1) for step in steps]
    gravity = [sum(edges[place : place + 3]) / 3 for place in range(mels)]  # of a triangle
    assert found.tolist() == pytest.approx(gravity, abs=16)  # half the distance of two lines of the spectrum


def narrow(seed=0):
    """Bursts of noise below 4 kHz, with digital silence between them and above: (1, N)."""
    bursts = noise(64_000, 1, seed, dtype=torch.float64) * (torch.arange(64_000) % 8000 < 4000)
    spectrum = torch.fft.rfft(bursts)
    spectrum[:, torch.linspace(0, 8000, spectrum.shape[1]) > 4000] = 0
    return (torch.fft.irfft(spectrum, 64_000) * 32_768).round() / 32_768


def test_the_floor_is_its_decibels_below_the_mean_energy_of_the_sample():
    front_end, given = LogMel(23, floor_db=37).double(), narrow()
    energies = torchaudios(given, 23)
    front_end.fit(given)
    floor = energies.mean() * 10**-3.7
    assert floor > 100 * front_end.epsilon
    assert_close(front_end.floor, floor, rtol=1e-6, atol=0)
    expected = (energies + floor).log().flatten(0, 1)
    deviations = expected.std(0).clamp(min=1)
    assert (deviations == 1).any() and (deviations > 1).any()
    assert_close(front_end(given).flatten(0, 1), (expected - expected.mean(0)) / deviations, rtol=1e-5, atol=1e-5)


def test_the_floor_is_epsilon_for_a_silent_sample_and_at_infinity():
    for front_end, given in ((LogMel(23), torch.zeros(3, 4801)), (LogMel(23, floor_db=float("inf")), noise())):
        front_end.fit(given)
        assert front_end.floor == torch.tensor(1e-6)


def test_faint_noise_in_bins_that_are_silent_in_the_sample_is_a_moderate_value():
    front_end, given = LogMel(40).double(), narrow()
    front_end.fit(given)
    silent = front_end.centers_hz > 4300
    energies = torchaudios(given, 40)[..., silent]
    noisy = given + 0.003 * torch.randn(given.shape, generator=torch.Generator().manual_seed(1))
    # Without a floor, as it was: far more than any value of the sample.
    logarithms, heard = (energies + 1e-6).log(), (torchaudios(noisy, 40)[..., silent] + 1e-6).log()
    assert ((heard - logarithms.mean()) / logarithms.std()).median() > 30
    assert 1 < front_end(noisy)[..., silent].median() < 12
    assert front_end(given)[..., silent].abs().max() < 2


def test_weights_saved_without_a_floor_give_what_they_gave():
    fitted, given = LogMel(23, epsilon=1e-4), noise()
    fitted.fit(narrow().float())
    old = {name: tensor for name, tensor in fitted.state_dict().items() if name != "floor"}
    loaded = torch.nn.Sequential(LogMel(23, epsilon=1e-4))
    loaded[0].fit(given)
    loaded.load_state_dict({f"0.{name}": tensor for name, tensor in old.items()})
    expected = ((torchaudios(given, 23) + 1e-4).log() - old["mean"]) / old["std"]
    assert_close(loaded(given), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("mels", "empty"), [(128, 1), (256, 27)])
def test_filters_without_a_line_of_the_spectrum_are_counted_in_a_warning(mels, empty):
    with pytest.warns(UserWarning, match=f"^{empty} of {mels} mel filters .* constant; use fewer mels") as warned:
        front_end = LogMel(mels)
    assert len(warned) == 1
    front_end.fit(noise())
    constant = front_end(noise(seed=1)).flatten(0, 1).std(0) < 1e-6
    assert constant.sum() == empty


@pytest.mark.parametrize("floor_db", [0, -3.0, float("nan")])
def test_a_floor_at_or_above_the_sound_is_refused(floor_db):
    with pytest.raises(ValueError, match=f"floor_db={floor_db} is not above 0"):
        LogMel(floor_db=floor_db)


def test_integer_samples_are_refused():
    samples = (noise() * 32768).short()
    for call in (LogMel(), LogMel().fit):
        with pytest.raises(InputError, match=r"samples are torch\.int16, not floats within"):
            call(samples)


def test_window_and_filters_survive_an_empty_copy_on_the_meta_device():
    front_end = LogMel()
    empty = copy.deepcopy(front_end).to("meta").to_empty(device="cpu")
    empty.load_state_dict(front_end.state_dict())
    assert torch.equal(empty(noise()), front_end(noise()))


def test_a_recording_longer_than_is_processed_at_once_has_the_same_frames():
    log_mel, rate = LogMel(9), 16_000
    waveforms = torch.randn(2, (LONGEST + 1) * rate, generator=torch.Generator().manual_seed(0))
    found = log_mel.energies(waveforms)
    frames = waveforms.unfold(-1, log_mel.window_samples, log_mel.hop_samples)
    torch.testing.assert_close(found, log_mel.energies_of(frames), rtol=1e-4, atol=1e-5)


def test_other_weights_leave_a_fitted_floor_as_it_is():
    front_end = LogMel(23)
    front_end.fit(noise())
    floor = front_end.floor.clone()
    nn.ModuleDict({"front": front_end}).load_state_dict({"other.weight": torch.zeros(2)}, strict=False)
    assert floor != front_end.epsilon and front_end.floor == floor
