"""What is drawn for an utterance: how many words, whose, when and over which noise, counted over many draws."""

import collections
import itertools

import numpy
import pytest
import torch

from vitspeech.data.utterances.manifest import problem_of
from vitspeech.data.utterances.word_clips import WordClip, WordSource
from vitspeech.data.utterances.word_sequences import UtteranceSampler

SPLITS = ("train", "validation", "test")
CLIPS_OF = {"anna": 23, "ben": 11, "cleo": 5, "dora": 3, "emil": 1}  # in training; each split has speakers of its own
NOISES = {"fan": 30_011, "tap": 1009, "rain": 17}


class Words(WordSource):
    """Clips of silence that last as many samples as no other, in no order of their speakers."""

    words = ("down", "go", "left", "no", "yes")

    def word_clips(self, split):
        said = [(f"{name} of {split}", number) for name, count in CLIPS_OF.items() for number in range(count)]
        order = numpy.random.default_rng(3).permutation(len(said))
        clips = []
        for place, (speaker, number) in enumerate(said[place] for place in order):
            start, end = 101 + place, 101 + place + 1601 + 10 * place
            samples = numpy.zeros(end + 211, numpy.int16)
            clips.append(WordClip(f"{speaker}/{number}", self.words[place % 5], speaker, samples, start, end))
        return clips

    def backgrounds(self, split):
        return {name: torch.zeros(samples, dtype=torch.int16) for name, samples in NOISES.items()}


def sampler(split="train", words=(1, 7), gap_ms=(0.0, 400.0), snr_db=(10.0, 30.0), **pauses):
    return UtteranceSampler(Words(), split, words, gap_ms, snr_db, **pauses)


def draws(count=300, seed=0, **arguments):
    made, generator = sampler(**arguments), numpy.random.default_rng(seed)
    return [made.sample(f"u{number}", generator) for number in range(count)]


@pytest.fixture(scope="module")
def many():
    return draws(3500)


def surprise(found, shares):
    """Pearson's statistic of counts that should have these shares; bounds are what chance exceeds once in 1,000."""
    total = sum(found)
    return sum((count - total * share) ** 2 / (total * share) for count, share in zip(found, shares, strict=True))


def speakers(utterance):
    return [name.partition("/")[0] for name in utterance.clips]


def silences(utterance):
    """Samples before the first word, between words and after the last."""
    ends = [start + last - first for start, (first, last) in zip(utterance.starts, utterance.cuts, strict=True)]
    return [after - before for before, after in zip([0, *ends], [*utterance.starts, utterance.samples], strict=True)]


def test_nothing_is_drawn_from_the_global_generators():
    numpy.random.seed(0)
    torch.manual_seed(0)
    expected = numpy.random.random(), torch.rand(())
    numpy.random.seed(0)
    torch.manual_seed(0)
    draws(7)
    assert (numpy.random.random(), torch.rand(())) == expected


def test_utterances_have_one_to_seven_words_each_count_as_often(many):
    counts = collections.Counter(len(utterance.words) for utterance in many)
    assert sorted(counts) == [1, 2, 3, 4, 5, 6, 7]
    assert surprise(counts.values(), [1 / 7] * 7) < 22.46  # 6 degrees of freedom


def test_words_are_of_the_first_clips_speaker_as_far_as_there_are_clips_and_then_of_others(many):
    seen = set()
    for utterance in many:
        said = speakers(utterance)
        whose = said[0]
        has = CLIPS_OF[whose.partition(" ")[0]]
        same = min(has, len(said))
        assert said[:same] == [whose] * same and whose not in said[same:]
        seen.add((has, same < len(said)))
    assert {(23, False), (11, False), (5, False), (5, True), (3, True), (1, True), (1, False)} <= seen


def test_a_word_is_its_clip_trimmed_at_both_ends(many):
    clips = {clip.name: clip for clip in Words().word_clips("train")}
    for utterance in many[:300]:
        assert utterance.words == [clips[name].word for name in utterance.clips]
        assert utterance.cuts == [[clips[name].start, clips[name].end] for name in utterance.clips]


@pytest.mark.parametrize("gap_ms", [(0.0, 400.0), (50.0, 61.0), (37.0, 37.0), (0.0, 0.0)])
def test_silences_are_within_their_range_to_the_sample(gap_ms):
    low, high = round(16 * gap_ms[0]), round(16 * gap_ms[1])
    for utterance in draws(gap_ms=gap_ms):
        gaps = silences(utterance)
        assert len(gaps) == len(utterance.words) + 1 and low <= min(gaps) <= max(gaps) <= high
        assert problem_of(utterance) is None


def test_long_pauses_come_as_often_as_asked_for_at_each_place():
    asked = draws(2000, words=(2, 2), pause_prob=0.2, pause_ms=(500.0, 700.0))
    long = numpy.array([silences(utterance) for utterance in asked]) > 6400
    assert ((long.mean(0) > 0.16) & (long.mean(0) < 0.24)).all()
    some = [gap for utterance in asked for gap in silences(utterance)]
    assert {gap > 6400 for gap in some} == {True, False} and max(some) <= 11_200
    assert 8000 <= min(gap for gap in some if gap > 6400) < 8100
    for utterance in asked:
        assert problem_of(utterance) is None


def test_silence_is_as_long_as_utterances_with_words_and_as_often_as_asked_for():
    asked = draws(3000, silence_prob=0.3, noise_prob=0.5)
    silent = [utterance for utterance in asked if not utterance.words]
    assert 0.27 < len(silent) / len(asked) < 0.33
    assert all(utterance.clips == utterance.cuts == utterance.starts == [] for utterance in silent)
    lengths, others = ([u.samples for u in asked if bool(u.words) == spoken] for spoken in (False, True))
    assert abs(numpy.mean(lengths) / numpy.mean(others) - 1) < 0.1
    assert {utterance.noise[0] for utterance in silent} == set(NOISES)
    assert 0.4 < numpy.mean([utterance.snr_db < numpy.inf for utterance in silent]) < 0.6


def test_the_noise_is_one_of_the_recordings_from_any_of_its_samples_on(many):
    counts = collections.Counter(utterance.noise[0] for utterance in many)
    assert set(counts) == set(NOISES) and surprise(counts.values(), [1 / 3] * 3) < 13.82  # 2 degrees of freedom
    for name, samples in NOISES.items():
        places = [utterance.noise[1] for utterance in many if utterance.noise[0] == name]
        assert 0 <= min(places) < samples / 100 + 1 and samples * 0.99 - 1 <= max(places) < samples
    assert {utterance.noise[1] for utterance in many if utterance.noise[0] == "rain"} == set(range(17))


def test_ratios_are_spread_over_their_range(many):
    ratios = numpy.array([utterance.snr_db for utterance in many])
    assert ratios.min() >= 10 and ratios.max() <= 30
    assert surprise(numpy.histogram(ratios, bins=10, range=(10, 30))[0], [0.1] * 10) < 27.88  # 9 degrees of freedom
    assert all(ratio == round(ratio, 2) for ratio in ratios.tolist())  # a manifest is read by people, too


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(SPLITS, 2)))
def test_no_clip_and_no_speaker_is_drawn_for_two_splits(one, other):
    clips, voices = [], []
    for split in (one, other):
        made = draws(split=split)
        clips.append({name for utterance in made for name in utterance.clips})
        voices.append({name for utterance in made for name in speakers(utterance)})
    assert len(clips[0]) == len(clips[1]) == 43 and clips[0].isdisjoint(clips[1]) and voices[0].isdisjoint(voices[1])


def test_more_words_than_clips_are_refused():
    with pytest.raises(ValueError, match=r"words=\[1, 44\] are more than the 43 clips for validation"):
        sampler("validation", words=(1, 44))
