"""Synthesized speech: the same again in any process, and what is asked for can be measured in it."""

import itertools
import math
import multiprocessing
import sys

import pytest
import torch
from torch import Tensor

from vitspeech.data.audio.synthesis import (
    ACCENTS,
    SAMPLE_RATE_HZ,
    SPLITS,
    Voice,
    accents,
    draw_voice,
    espeak_paths,
    resample,
    split_of,
    synthesize,
    variants,
    voices_of,
)
from vitspeech.errors import InputError

pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
WORDS = ("yes", "no", "seven", "house", "off", "happy")


def test_every_variant_gives_the_same_audio_regardless_of_earlier_calls():
    voices = [Voice(ACCENTS[number % 8], variant) for number, variant in enumerate(variants())]
    words = [WORDS[number % len(WORDS)] for number in range(len(voices))]
    first = synthesize(words, voices)
    synthesize(words[:3], voices[:3])
    again = synthesize(words, voices)
    changed = [voices[i].variant for i, sound in enumerate(again) if not torch.equal(sound, first[i])]
    assert changed == []


def test_a_synthesizer_in_another_process_gives_the_same_audio():
    words, voices = WORDS[:2], [Voice(variant="f2"), Voice("en-gb", "klatt3")]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(synthesize, (words, voices))
    assert all(torch.equal(one, other) for one, other in zip(there, synthesize(words, voices), strict=True))


def test_words_are_as_long_and_loud_as_words():
    generator = torch.Generator().manual_seed(0)
    sounds = synthesize(WORDS * 10, [draw_voice("train", generator) for _ in range(60)])
    for sound in sounds:
        assert sound.dtype == torch.int16 and sound.ndim == 1
        assert 0.1 < len(sound) / SAMPLE_RATE_HZ < 1.2
        peak = int(sound.int().abs().max())
        assert 500 < peak < 32767
        assert abs(int(sound[0])) > 0.005 * peak and abs(int(sound[-1])) > 0.005 * peak
    assert len({sound.numpy().tobytes() for sound in sounds}) == 60


def test_resampling_preserves_frequencies_below_8_khz():
    def pulse(hz: int, rate_hz: int) -> Tensor:
        time = torch.arange(rate_hz // 10, dtype=torch.float64) / rate_hz
        envelope = torch.exp(-(((time - 0.04) / 0.01) ** 2))
        return (9000 * envelope * torch.cos(2 * math.pi * hz * time)).round().to(torch.int16)

    for hz in (300, 2345, 7000):
        assert (resample(pulse(hz, 22_050)).int() - pulse(hz, SAMPLE_RATE_HZ).int()).abs().max() <= 2
    assert resample(pulse(9000, 22_050)).abs().max() <= 1


def test_no_throat_is_in_two_splits():
    throats = {split: {variant for _, variant in voices_of(split)} for split in SPLITS}
    assert sorted(itertools.chain(*throats.values())) == list(variants())
    assert all(len(voices_of(split)) == len(ACCENTS) * len(throats[split]) for split in SPLITS)
    assert {split: len(throats[split]) for split in SPLITS} == {"train": 58, "validation": 15, "test": 11}
    assert split_of("steph") == split_of("steph2") and split_of("Diogo") == split_of("miguel")


def test_the_same_seed_draws_the_same_voices():
    def some(split, seed):
        generator = torch.Generator().manual_seed(seed)
        return [draw_voice(split, generator) for _ in range(20)]

    assert some("test", 4) == some("test", 4) != some("test", 5)
    assert {(voice.language, voice.variant) for voice in some("test", 4)} <= set(voices_of("test"))


@pytest.mark.parametrize("word", ["", "  ", "?!"])
def test_an_unsayable_word_is_named(word):
    with pytest.raises(ValueError) as error:
        synthesize(["yes", word], [Voice()] * 2)
    assert repr(word) in str(error.value)


def test_a_language_has_its_own_accents_and_says_words_its_own_way():
    assert accents("en") == ACCENTS and accents("en-us") == ("en-us", "en-us-nyc")
    assert accents("de") == ("de",) and accents("fr") == ("fr", "fr-be", "fr-ch")
    assert {language for language, _ in voices_of("train", "fr")} == {"fr", "fr-be", "fr-ch"}
    (german,), (sounds,) = synthesize(["Name"], [Voice("de")], "de"), synthesize(["[[n|'A:|m|@]]"], [Voice("de")], "de")
    assert torch.equal(german, sounds)
    with pytest.raises(InputError, match="language='xx' is unknown; known: af, am"):
        accents("xx")


def test_a_missing_loader_is_reported_with_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(ImportError, match="pip install vitspeech"):
        espeak_paths()
