"""Where a word begins and ends: clips whose sound was put at known places."""

import numpy
import pytest
import torch

from vitspeech.data.audio.reading import fit_length
from vitspeech.data.utterances.word_clips import around_word, is_said_twice, word_span

RATE_HZ = 16_000
CLOSE = 0.020 * RATE_HZ  # 20 ms


def background(seconds=1.0, level=30, seed=0):
    """White noise of that standard deviation, in steps of 16 bits."""
    return numpy.random.default_rng(seed).normal(0, level, round(seconds * RATE_HZ))


def tone(seconds, hertz=1709, level=8000):
    return level * numpy.sin(2 * numpy.pi * hertz * numpy.arange(round(seconds * RATE_HZ)) / RATE_HZ)


def with_sounds(noise, **sounds):
    """A clip with sounds at their starts in milliseconds, `at_317=tone(…)`: int16."""
    clip = noise.copy()
    for place, sound in sounds.items():
        start = int(place.removeprefix("at_")) * RATE_HZ // 1000
        clip[start : start + len(sound)] += sound
    return clip.round().astype(numpy.int16)


def assert_found(clip, start_ms, end_ms):
    start, end = word_span(clip)
    assert abs(start - start_ms * RATE_HZ / 1000) <= CLOSE and abs(end - end_ms * RATE_HZ / 1000) <= CLOSE


@pytest.mark.parametrize("hertz", [211, 1709, 5003])
@pytest.mark.parametrize("level", [100, 1000, 20_000])
@pytest.mark.parametrize("seed", range(3))
def test_a_tone_in_noise_is_found_within_20_ms_at_both_ends(hertz, level, seed):
    # At least 10 dB above the noise, whose standard deviation is the level's hundredth.
    clip = with_sounds(background(level=level / 100, seed=seed), at_317=tone(0.401, hertz, level))
    assert_found(clip, 317, 317 + 401)


@pytest.mark.parametrize("lasts_s", [0.1003, 0.5, 1.7])
def test_the_span_lies_within_the_clip_however_long_that_is(lasts_s):
    clip = background(lasts_s)
    clip[len(clip) // 2 :] *= 100
    start, end = word_span(clip.round().astype(numpy.int16))
    assert 0 <= start < end <= len(clip)


@pytest.mark.parametrize(("first", "second", "start_ms"), [(4000, 8000, 601), (8000, 4000, 101)])
def test_of_two_sounds_300_ms_apart_the_stronger_is_the_word(first, second, start_ms):
    clip = with_sounds(background(), at_101=tone(0.2, level=first), at_601=tone(0.2, level=second))
    assert_found(clip, start_ms, start_ms + 200)


@pytest.mark.parametrize("click", [20, 60])
def test_a_loud_click_is_not_detected_as_a_word(click):
    clip = with_sounds(background(), at_101=tone(click / 1000, level=30_000), at_601=tone(0.2, level=3000))
    assert_found(clip, 601, 801)


def test_what_is_far_below_the_peak_is_background_also_where_the_rest_is_digital_silence():
    loud_then_faint = numpy.concatenate((tone(0.3), tone(0.3, level=40)))  # 46 dB below
    assert_found(with_sounds(numpy.zeros(RATE_HZ), at_201=loud_then_faint), 201, 501)


def test_hum_far_louder_than_the_word_is_not_taken_for_it():
    hum = 30 * tone(1.0, hertz=50, level=300)
    assert_found(with_sounds(background() + hum, at_317=tone(0.401, 3001, 4000)), 317, 718)


@pytest.mark.parametrize("seed", range(5))
def test_a_clip_of_steady_noise_is_all_word_but_for_a_pause_at_either_end(seed):
    start, end = word_span(background(level=5000, seed=seed).round().astype(numpy.int16))
    assert start <= 0.15 * RATE_HZ and end >= 0.85 * RATE_HZ


@pytest.mark.parametrize(("start_ms", "first"), [(1300, 17_600), (100, 0), (2300, 32_000)])
def test_a_recording_is_cut_with_the_word_in_the_middle_as_far_as_it_reaches(start_ms, first):
    clip = torch.from_numpy(with_sounds(background(3, 300), **{f"at_{start_ms}": tone(0.6)}))
    assert first - CLOSE <= place_of(around_word(clip, RATE_HZ), clip) <= first + CLOSE


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_a_recording_that_is_not_longer_than_a_clip_is_padded_or_left_as_it_is(seconds):
    clip = torch.from_numpy(with_sounds(background(seconds), at_10=tone(0.2)))
    assert around_word(clip, RATE_HZ).equal(fit_length(clip, RATE_HZ))


def test_a_recording_without_a_word_is_cut_at_its_most_energy():
    clip = torch.arange(2 * RATE_HZ, dtype=torch.int16) % 2 * 100  # one level
    assert around_word(clip, RATE_HZ).equal(fit_length(clip, RATE_HZ))
    assert around_word(torch.zeros(2 * RATE_HZ, dtype=torch.int16), RATE_HZ).tolist() == [0] * RATE_HZ


def place_of(part, clip):
    return int((clip.unfold(0, 50, 1) == part[:50]).all(1).nonzero())


@pytest.mark.parametrize(
    ("gap_ms", "length_ms", "level", "is_twice"),
    [
        (360, 300, 8000, True),
        (360, 300, 3000, True),
        (240, 300, 8000, False),  # the pause in a phrase
        (360, 100, 8000, False),  # a click
        (360, 300, 1500, False),  # an echo, or somebody else
    ],
)
@pytest.mark.parametrize("is_second", [True, False])
def test_two_sounds_of_similar_energy_far_apart_are_two_words(gap_ms, length_ms, level, is_twice, is_second):
    word, other = tone(0.3), tone(length_ms / 1000, level=level)
    first, second = (word, other) if is_second else (other, word)
    at = 200 + len(first) * 1000 // RATE_HZ + gap_ms
    clip = with_sounds(background(2), at_200=first, **{f"at_{at}": second})
    assert is_said_twice(clip) == is_twice
    assert not is_said_twice(with_sounds(background(2), at_200=first)) and not is_said_twice(numpy.zeros(RATE_HZ))
