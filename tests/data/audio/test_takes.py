"""Takes of words: their order, their names, and what is wrong with one."""

import numpy
import pytest
import soundfile

from vitspeech.data.audio.takes import missing_takes, problem_of_take, save_take
from vitspeech.errors import InputError

RATE = 16_000


def word(start_s=0.7, lasts_s=0.5, peak=8000.0, noise=20.0, duration_s=2.0):
    """A take of noise with a tone of a word's length."""
    generator = numpy.random.default_rng(0)
    samples = noise * generator.standard_normal(round(duration_s * RATE))
    start, end = round(start_s * RATE), min(round((start_s + lasts_s) * RATE), len(samples))
    samples[start:end] += peak * numpy.sin(2 * numpy.pi * 500 * numpy.arange(end - start) / RATE)
    return samples.round().clip(-32768, 32767).astype(numpy.int16)


@pytest.mark.parametrize(
    "samples, problem",
    [
        (word(), None),
        (word(lasts_s=0.25, peak=2000), None),
        (word(peak=0, noise=1), "silent"),
        (numpy.zeros(2 * RATE, numpy.int16), "silent"),
        (word(peak=60_000), "clipped"),
        (word(peak=0, noise=300), "no word stands out"),
        (word(peak=400, noise=300), "no word stands out"),
        (word(lasts_s=0.05), "no sound of 200 ms"),
        (word(start_s=0.0), "cut at the start"),
        (word(start_s=1.8), "cut at the end"),
    ],
)
def test_what_is_wrong_with_a_take_is_said(samples, problem):
    found = problem_of_take(samples)
    assert found is None if problem is None else problem in found and "\n" not in found


def test_words_come_in_shuffled_rounds(tmp_path):
    words = ["lamp", "heating", "fan", "light on"]
    takes = missing_takes(tmp_path, words, 5, "anna")
    rounds = [[word for word, _ in takes[start : start + 4]] for start in range(0, 20, 4)]
    assert all(sorted(one) == sorted(words) for one in rounds) and len({tuple(one) for one in rounds}) > 2
    assert takes == missing_takes(tmp_path, words, 5, "anna") != missing_takes(tmp_path, words, 5, "ben")
    assert len({file for _, file in takes}) == 20
    assert takes[0][1] == tmp_path / takes[0][0] / "anna_nohash_0.wav"


def test_recorded_takes_are_counted_by_speaker_and_never_replaced(tmp_path):
    for name in ("anna_nohash_0", "anna_nohash_7", "ben_nohash_0", "other"):
        save_take(word(), tmp_path / "lamp" / f"{name}.wav")
    assert [file.name for _, file in missing_takes(tmp_path, ["lamp"], 4, "anna")] == [
        "anna_nohash_8.wav",
        "anna_nohash_9.wav",
    ]
    assert missing_takes(tmp_path, ["lamp"], 2, "anna") == []
    assert len(missing_takes(tmp_path, ["lamp"], 2, "ann")) == 2


@pytest.mark.parametrize("bad", ["../lamp", "_lamp", "", "a_nohash_b", "lamp/on", ".lamp"])
def test_names_that_are_no_names_of_files_are_refused(tmp_path, bad):
    with pytest.raises(InputError, match="cannot name a folder or file"):
        missing_takes(tmp_path, ["lamp", bad], 1, "anna")
    with pytest.raises(InputError, match="cannot name a folder or file"):
        missing_takes(tmp_path, ["lamp"], 1, bad)


def test_a_saved_take_is_the_same_again(tmp_path):
    save_take(word(), tmp_path / "lamp" / "anna_nohash_0.wav")
    samples, rate = soundfile.read(tmp_path / "lamp" / "anna_nohash_0.wav", dtype="int16")
    assert rate == RATE and (samples == word()).all()
    assert [path.name for path in (tmp_path / "lamp").iterdir()] == ["anna_nohash_0.wav"]
