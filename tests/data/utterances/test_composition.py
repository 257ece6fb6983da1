"""The sound of a composed utterance, compared with its definition written out."""

import dataclasses

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitspeech.data.utterances.manifest import Utterance
from vitspeech.data.utterances.word_clips import WordClip, compose

FADE, LEVEL = 640, 0.05  # as the file says them: 40 ms at 16 kHz, and -26 dB of full scale
INAUDIBLE = 120.0  # dB: a thousandth of a step of 16 bits


def clip(name="a", count=4001, level=1000.0, seed=0):
    samples = numpy.random.default_rng(seed).normal(0, level, count).round().clip(-32768, 32767).astype(numpy.int16)
    return WordClip(name, f"word {name}", "anna", samples, 0, count)


def constant(name="c", count=4001, value=1000):
    return WordClip(name, f"word {name}", "anna", numpy.full(count, value, numpy.int16), 0, count)


CLIPS = {"a": clip("a", 4001, seed=1), "b": clip("b", 5003, 300, seed=2), "c": constant("c", 3001)}
NOISES = {"fan": clip("fan", 1009, 700, seed=3).samples, "tap": clip("tap", 30_011, 90, seed=4).samples}


def utterance(*said, samples=20_011, noise=("fan", 0), snr_db=INAUDIBLE):
    """An utterance of words, each given as (clip, first, last, start)."""
    clips, starts = [name for name, *_ in said], [start for *_, start in said]
    cuts = [[first, last] for _, first, last, _ in said]
    return Utterance("u", [f"word {name}" for name in clips], samples, clips, cuts, starts, list(noise), snr_db)


def sound_of(*said, clips=CLIPS, noises=NOISES, **rest):
    return compose(utterance(*said, **rest), clips, noises).astype(numpy.float64)


def written_out(said, clips=CLIPS, noises=NOISES):
    """The same sound, by its definition and with every sample of a clip weighted: steps of 16 bits, not yet whole."""
    time = numpy.arange(said.samples)
    total = numpy.zeros(said.samples)
    for name, (first, last), start in zip(said.clips, said.cuts, said.starts, strict=True):
        source = clips[name].samples / 32768
        place = time - start + first  # in the clip
        away = numpy.maximum(first - place, place - last + 1)  # samples outside of the word, from 1 on
        weight = numpy.where(away > 0, numpy.sin(numpy.pi / 2 * (FADE - away + 0.5) / FADE) ** 2, 1)
        weight[(away > FADE) | (place < 0) | (place >= len(source))] = 0
        level = numpy.sqrt(sum(value**2 for value in source[first:last]) / (last - first))
        total += weight * source[place.clip(0, len(source) - 1)] * LEVEL / level
    name, offset = said.noise
    under = noises[name][(offset + time) % len(noises[name])] / 32768
    total += under / numpy.sqrt((under**2).mean()) * LEVEL / 10 ** (said.snr_db / 20)
    return (total * 32768).clip(-32768, 32767)


@st.composite
def drawn_utterances(draw):
    samples = draw(st.integers(2003, 9001))
    said = []
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(CLIPS)))
        lasts = draw(st.integers(401, 1999))
        first = draw(st.integers(0, len(CLIPS[name].samples) - lasts))
        said.append((name, first, first + lasts, draw(st.integers(0, samples - lasts))))
    noise = draw(st.sampled_from(sorted(NOISES)))
    place = draw(st.integers(0, len(NOISES[noise]) - 1))
    return utterance(*said, samples=samples, noise=(noise, place), snr_db=draw(st.floats(-5, 50)))


@settings(deadline=None, max_examples=100)
@given(drawn_utterances())
def test_an_utterance_is_the_sum_of_its_faded_words_and_noise_as_written_out(said):
    sound = compose(said, CLIPS, NOISES)
    assert sound.dtype == numpy.int16 and sound.shape == (said.samples,)
    assert numpy.abs(sound - written_out(said)).max() < 0.51  # rounding


def test_fades_are_outside_of_the_cut_and_40_ms_long():
    # A clip of one value shows its weights.
    sound = sound_of(("c", 1009, 2003, 5003)) / (LEVEL * 32768)
    end = 5003 + 994
    assert numpy.abs(sound[5003:end] - 1).max() < 1e-3
    assert not sound[: 5003 - 640].any() and not sound[end + 640 :].any()
    rise, fall = sound[5003 - 640 : 5003], sound[end : end + 640]
    assert (numpy.diff(rise) >= 0).all() and rise[0] < 1e-3 and rise[-1] > 0.999
    assert rise[160] == pytest.approx(numpy.sin(numpy.pi / 8) ** 2, abs=5e-3) and rise[320] == pytest.approx(
        0.5, abs=5e-3
    )
    assert fall == pytest.approx(rise[::-1], abs=1e-3)  # a step


def test_a_silent_word_and_silent_noise_stay_silent():
    silent = {"a": dataclasses.replace(CLIPS["a"], samples=numpy.zeros(4001, numpy.int16))}
    assert not sound_of(
        ("a", 701, 2003, 1009), clips=silent, noises={"fan": numpy.zeros(53, numpy.int16)}, snr_db=0
    ).any()
