"""Speed and loudness of training utterances: each alone against what it says, and where words are afterwards.

Shapes: B = 61 utterances, at most N = 9001 samples.
"""

import numpy
import pytest
import torch
from torch.testing import assert_close

from vitspeech.data.batches import SpeechBatch, collate
from vitspeech.data.utterances.augment import SequenceAugment, change_speed, joined

BATCH, RATE_HZ = 61, 16_000


def tone(samples, hertz=503.0, speed=1.0):
    """A tone as it sounds at a speed: (samples,)."""
    return torch.sin(2 * torch.pi * hertz * speed / RATE_HZ * torch.arange(samples, dtype=torch.float64)).float()


def speech():
    """Utterances of one to three tones, each a word, in silence."""
    draw = numpy.random.default_rng(0)
    lengths = draw.integers(5003, 9001, BATCH)
    lengths[17] = 9001
    waveforms, spans, units = torch.zeros(BATCH, 9001), torch.zeros(BATCH, 3, 2, dtype=torch.long), []
    for row, length in enumerate(lengths):
        count = row % 3 + 1
        ends = torch.from_numpy(numpy.sort(draw.choice(numpy.arange(0, length + 1, 101), 2 * count, replace=False)))
        spans[row, :count] = ends.view(count, 2)
        for start, end in spans[row, :count].tolist():
            waveforms[row, start:end] = 0.1 * tone(end - start)
        units.append([row] * count + [-1] * (3 - count))
    return SpeechBatch(waveforms, torch.from_numpy(lengths), torch.tensor(units), spans)


def changed(given=None, seed=0, **settings):
    torch.manual_seed(seed)
    return SequenceAugment(**{"speed": 0.0, "gain_db": 0.0} | settings)(speech() if given is None else given)


def decibels(ratio):
    return 20 * torch.log10(ratio)


@pytest.mark.parametrize("speed", [0.5, 0.85, 0.97, 1.03, 1.15, 1.7])
@pytest.mark.parametrize("samples", [5003, 80_021])
def test_a_tone_read_faster_is_higher_and_shorter_by_the_speed(samples, speed):
    sound = change_speed(tone(samples), speed)
    assert sound.shape == (round(samples / speed),) and sound.dtype == torch.float32
    # Cubic interpolation is no more exact than that; at the very ends it reads into silence.
    assert_close(sound[2:-3], tone(len(sound), speed=speed)[2:-3], atol=1.5e-2, rtol=0)


def test_a_word_still_lies_in_its_span_and_has_it_filled():
    after = changed(speed=0.15)
    for row in range(BATCH):
        count = row % 3 + 1
        outside = after.waveforms[row].clone()
        for start, end in after.spans[row, :count].tolist():
            assert after.waveforms[row, start + 5 : end - 5].square().mean() > 0.9 * 0.005  # of a tone of 0.1
            outside[max(start - 3, 0) : end + 3] = 0
        assert outside.abs().max() == 0
        assert after.spans[row, count:].eq(0).all()


def test_lengths_and_spans_become_shorter_by_one_speed_an_utterance():
    given, after = speech(), changed(speed=0.15)
    speeds = given.lengths / after.lengths
    assert 0.849 < speeds.min() < 0.87 and 1.13 < speeds.max() < 1.151
    assert abs(speeds.mean() - 1) < 0.04 and len(speeds.unique()) == BATCH
    assert after.lengths.dtype == after.spans.dtype == torch.int64
    expected = given.spans / speeds[:, None, None]
    assert (after.spans - expected).abs().max() <= 2  # lengths are whole samples, so speeds are known that well
    assert (after.spans[..., 1].amax(1) <= after.lengths).all()


@pytest.mark.parametrize("speed", [0.0, 0.15])
def test_gain_is_one_factor_an_utterance_within_its_decibels(speed):
    louder, same = changed(speed=speed, gain_db=6.0), changed(speed=speed)
    assert torch.equal(louder.lengths, same.lengths)
    heard = same.waveforms.abs() > 0.01
    ratio = louder.waveforms / same.waveforms
    factors = torch.stack([row[sounds].mean() for row, sounds in zip(ratio, heard, strict=True)])
    assert_close(louder.waveforms, same.waveforms * factors[:, None], atol=1e-6, rtol=1e-4)
    gain = decibels(factors)
    assert -6.001 < gain.min() < -5 and 5 < gain.max() < 6.001 and abs(gain.mean()) < 1.5


def test_what_is_drawn_follows_from_torchs_seed():
    one, again, other = (changed(seed=seed, speed=0.15, gain_db=6.0) for seed in (5, 5, 6))
    assert all(torch.equal(part, same) for part, same in zip(one, again, strict=True))
    assert not torch.equal(one.lengths, other.lengths)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"speed": -0.1}, "speed=-0.1 is not a number from 0 to 0.9"),
        ({"noise_prob": 1.5}, r"noise_prob=1.5 is not a number from 0 to 1"),
        ({"pause_ms": (2000.0, 400.0)}, r"pause_ms=\[2000.0, 400.0\] is not a range from low to high"),
        ({"snr_db": (1.0, 2.0, 3.0)}, r"snr_db=\[1.0, 2.0, 3.0\] is not a range"),
    ],
)
def test_a_number_out_of_its_range_is_an_error_that_names_it(settings, message):
    with pytest.raises(ValueError, match=message):
        SequenceAugment(**settings)


@pytest.mark.parametrize("count", [4, 5])
def test_joined_utterances_follow_each_other_with_a_space_between_their_units(count):
    sounds = [torch.full((10 * (place + 1),), float(place + 1)) for place in range(count)]
    speech = collate(sounds, [[place] * 2 for place in range(count)])
    torch.manual_seed(0)
    seen = set()
    for _ in range(300):
        pairs, found = joined(speech, between=[9]), []
        for waveform, length, units in zip(pairs.waveforms, pairs.lengths.tolist(), pairs.units, strict=True):
            said = [unit for unit in units.tolist() if unit >= 0]
            places = said[::3]
            assert said == [places[0]] * 2 + ([9] + [places[1]] * 2 if len(places) == 2 else [])
            assert waveform[:length].tolist() == torch.cat([sounds[place] for place in places]).tolist()
            found.append(tuple(places))
        assert sorted(map(len, found)) == [1] * (count % 2) + [2] * (count // 2)
        assert sorted(place for places in found for place in places) == list(range(count))
        seen.update(found)
    pairs = {places for places in seen if len(places) == 2}
    assert len(pairs) == count * (count - 1)  # any two, in either order
