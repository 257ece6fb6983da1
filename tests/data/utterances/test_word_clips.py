"""Where a word begins and ends: clips whose sound was put at known places."""

import numpy
import pytest

from vitspeech.data.utterances.word_clips import WordClip, WordSource, word_span

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


@pytest.mark.parametrize("start_ms", [0, 599])
def test_a_word_at_the_edge_of_its_clip_is_found(start_ms):
    assert_found(with_sounds(background(), **{f"at_{start_ms}": tone(0.401)}), start_ms, start_ms + 401)


@pytest.mark.parametrize("lasts_s", [0.1003, 0.5, 1.7])
def test_the_span_lies_within_the_clip_however_long_that_is(lasts_s):
    clip = background(lasts_s)
    clip[len(clip) // 2 :] *= 100
    start, end = word_span(clip.round().astype(numpy.int16))
    assert 0 <= start < end <= len(clip)


def test_a_pause_of_100_ms_is_inside_a_word():
    assert_found(with_sounds(background(), at_201=tone(0.2), at_501=tone(0.2)), 201, 701)


@pytest.mark.parametrize(("first", "second", "start_ms"), [(4000, 8000, 601), (8000, 4000, 101)])
def test_of_two_sounds_300_ms_apart_the_stronger_is_the_word(first, second, start_ms):
    clip = with_sounds(background(), at_101=tone(0.2, level=first), at_601=tone(0.2, level=second))
    assert_found(clip, start_ms, start_ms + 200)


def test_of_two_sounds_a_long_one_is_stronger_than_a_short_one_as_loud():
    assert_found(with_sounds(background(), at_53=tone(0.17), at_503=tone(0.4)), 503, 903)


def test_a_sound_of_a_seventh_of_a_second_is_a_word():
    assert_found(with_sounds(background(), at_101=tone(0.14), at_601=tone(0.3, level=2000)), 101, 241)


@pytest.mark.parametrize("click", [20, 60])
def test_a_loud_click_is_not_detected_as_a_word(click):
    clip = with_sounds(background(), at_101=tone(click / 1000, level=30_000), at_601=tone(0.2, level=3000))
    assert_found(clip, 601, 801)


def test_a_clip_with_nothing_but_a_click_is_all_word():
    assert word_span(with_sounds(background(), at_401=tone(0.02))) == (0, RATE_HZ)


def test_what_is_far_below_the_peak_is_background_also_where_the_rest_is_digital_silence():
    loud_then_faint = numpy.concatenate((tone(0.3), tone(0.3, level=40)))  # 46 dB below
    assert_found(with_sounds(numpy.zeros(RATE_HZ), at_201=loud_then_faint), 201, 501)


def test_hum_far_louder_than_the_word_is_not_taken_for_it():
    hum = 30 * tone(1.0, hertz=50, level=300)
    assert_found(with_sounds(background() + hum, at_317=tone(0.401, 3001, 4000)), 317, 718)


@pytest.mark.parametrize("value", [0, -7, 32767])
def test_a_clip_of_one_value_is_all_word(value):
    assert word_span(numpy.full(1601, value, numpy.int16)) == (0, 1601)


def test_a_clip_loud_all_through_is_all_word():
    assert_found(with_sounds(background(), at_0=tone(1.0)), 0, 1000)


@pytest.mark.parametrize("seed", range(5))
def test_a_clip_of_steady_noise_is_all_word_but_for_a_pause_at_either_end(seed):
    start, end = word_span(background(level=5000, seed=seed).round().astype(numpy.int16))
    assert start <= 0.15 * RATE_HZ and end >= 0.85 * RATE_HZ


@pytest.mark.parametrize("clip", [tone(0.020), background(0.020), numpy.zeros(320)], ids=["tone", "noise", "zeros"])
def test_a_clip_of_20_ms_is_all_word(clip):
    assert word_span(clip.round().astype(numpy.int16)) == (0, 320)


def test_full_scale_does_not_overflow():
    square = numpy.tile(numpy.int16([-32768, 32767]), RATE_HZ // 4)
    clip = numpy.concatenate((numpy.zeros(4001, numpy.int16), square, numpy.zeros(4001, numpy.int16)))
    start, end = word_span(clip)
    assert abs(start - 4001) <= CLOSE and abs(end - (4001 + len(square))) <= CLOSE


def test_a_span_is_of_pythons_integers_which_a_manifest_can_hold():
    assert [type(end) for end in word_span(with_sounds(background(), at_317=tone(0.3)))] == [int, int]


def test_the_clip_is_left_as_it_was():
    clip = with_sounds(background(), at_317=tone(0.3))
    before = clip.copy()
    word_span(clip)
    assert numpy.array_equal(clip, before)


def test_a_source_must_define_its_words_and_noises():
    for ask in (WordSource().word_clips, WordSource().backgrounds):
        with pytest.raises(NotImplementedError):
            ask("train")


def test_a_word_of_a_clip_can_not_be_changed_by_mistake():
    clip = WordClip("go/3", "go", "anna", numpy.zeros(1601, numpy.int16), 0, 1601)
    with pytest.raises(AttributeError):
        clip.start = 7
