"""Word sequences: what a batch follows from, labels and times, what training changes, and test sets by manifest."""

import dataclasses
import functools
import os
import re
import string

import numpy
import pytest
import torch

from vitspeech.data.clips.speech_commands import SpeechCommands
from vitspeech.data.clips.spoken_words import SpokenWords
from vitspeech.data.utterances import word_sequences
from vitspeech.data.utterances.augment import SequenceAugment
from vitspeech.data.utterances.manifest import read_checksums, read_manifest, write_manifest
from vitspeech.data.utterances.word_sequences import WordSequences, manifest_file

WORDS = ("seven", "go", "stop")


@pytest.fixture(scope="module")
def source():
    pytest.importorskip("espeakng_loader", reason="synthesized speech needs the extra `spoken`")
    source = SpokenWords(WORDS, count=67)
    source.word_clips = functools.cache(source.word_clips)
    return source


@pytest.fixture
def made(source):
    def make(stage=None, **arguments):
        data = WordSequences(source, **{"count": 110, "batch": 7} | arguments)
        data.setup(stage)
        return data

    return make


class Stage:
    def __init__(self, training):
        self.training = training


def batch_of(items, count=5, seed=3):
    speech, same = items[torch.arange(count), seed]
    assert same == seed
    return speech


def assert_same(one, other):
    assert all(torch.equal(part, same) for part, same in zip(one, other, strict=True))


def transcripts(data, speech):
    """What was said, by the labels of a batch's units."""
    return [[data.labels[unit] for unit in row if unit >= 0] for row in speech.units.tolist()]


def test_a_training_batch_depends_only_on_its_seed(made):
    first = batch_of(made(seed=1).train)
    again = made(seed=2)
    batch_of(again.train, seed=4)
    torch.manual_seed(11)
    speech, _ = again.train[torch.tensor([83, 2, 5, 7, 11]), 3]  # which utterances they are only counts
    assert_same(first, speech)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_evaluation_is_the_same_whatever_the_seed(made, split):
    one, other = (made(seed=seed).read(split) for seed in (1, 2))
    assert one.utterances == other.utterances and len(one) == 11
    assert [utterance.id for utterance in one.utterances[:2]] == [f"{split}-0000", f"{split}-0001"]
    assert_same(batch_of(one), batch_of(other, seed=9))


def test_words_are_labeled_by_the_sources_numbers(made):
    data = made()
    assert data.labels == list(WORDS)
    assert transcripts(data, batch_of(data.validation, 11)) == [said.words for said in data.validation.utterances]


def test_characters_are_labeled_with_a_space_between_words(made):
    data = made(units="characters", words=(2, 4))
    assert data.labels == [" ", "'", *string.ascii_lowercase] and len(data.labels) == 28
    speech = batch_of(data.validation, 11)
    said = [" ".join(said.words) for said in data.validation.utterances]
    assert ["".join(units) for units in transcripts(data, speech)] == said
    assert speech.spans.shape[1] == 4  # times are of words, whatever the units


def test_sound_is_where_the_spans_say(made):
    data = made(gap_ms=(101, 307), snr_db=(120, 120))
    speech = batch_of(data.validation, 11)
    for sound, length, spans in zip(speech.waveforms, speech.lengths, speech.spans, strict=True):
        outside = sound.clone()
        for start, end in spans[spans[:, 1] > 0].tolist():
            assert 0 <= start < end <= length and sound[start : start + 320].any() and sound[end - 320 : end].any()
            outside[start:end] = 0  # synthesized clips are all word: nothing to fade
        assert not outside.any()


def test_training_has_the_ratios_of_its_augmentation_and_evaluation_those_of_the_protocol(made):
    data = made(snr_db=(17, 19), augment=SequenceAugment(snr_db=(3, 5), noise_prob=0.7))
    generator = numpy.random.default_rng(0)
    drawn = [data.sampler("train").sample("u", generator).snr_db for _ in range(401)]
    noisy = [ratio for ratio in drawn if ratio < numpy.inf]
    assert all(3 <= ratio <= 5 for ratio in noisy) and 0.6 < len(noisy) / len(drawn) < 0.8
    for items in (data.validation, data.read("test")):
        assert all(17 <= utterance.snr_db <= 19 for utterance in items.utterances)


def test_long_pauses_are_for_training_alone(made):
    data = made(words=(2, 2), gap_ms=(10, 10), augment=SequenceAugment(pause_prob=0.5, pause_ms=(500, 500)))
    generator = numpy.random.default_rng(0)
    first = {data.sampler("train").sample("u", generator).starts[0] for _ in range(30)}
    assert first == {160, 8000}
    for items in (data.validation, data.read("test")):
        assert {utterance.starts[0] for utterance in items.utterances} == {160}


def test_silence_is_for_training_alone(made):
    data = made(augment=SequenceAugment(silence_prob=0.5))
    generator = numpy.random.default_rng(0)
    drawn = [data.sampler("train").sample("u", generator).words for _ in range(200)]
    assert 0.35 < drawn.count([]) / len(drawn) < 0.65
    for items in (data.validation, data.read("test")):
        assert all(utterance.words for utterance in items.utterances)


def test_training_batches_are_augmented_by_their_own_seed(made):
    data = made()
    data.trainer = Stage(training=True)
    batch = next(iter(data.train_dataloader()))
    first = data.on_after_batch_transfer(batch, 0)
    torch.rand(11)
    assert_same(data.on_after_batch_transfer(batch, 0), first)
    assert not (first.lengths == batch[0].lengths).any() and torch.equal(first.units, batch[0].units)
    other = data.on_after_batch_transfer((batch[0], batch[1] + 1), 0)
    assert not (first.lengths == other.lengths).any()


def test_items_are_the_clips_of_the_source_if_it_names_them(made, source, monkeypatch, tmp_path):
    assert made().item_names() == {} and made().item_root is None
    monkeypatch.setattr(source, "item_root", tmp_path, raising=False)
    assert made().item_root == tmp_path
    monkeypatch.setattr(source, "item_names", lambda: {"train": ["go/1"], "test": ["go/2"]})
    assert made().item_names() == {"train": ["go/1"], "test": ["go/2"]}
    made().write_manifest(tmp_path / "some.jsonl")
    data = made(manifests=[str(tmp_path / "some.jsonl")])
    clips = {clip for utterance in data.read("test").utterances for clip in utterance.clips}
    assert data.item_names() == {"train": ["go/1"], "test": sorted(clips)}


def test_a_missing_source_is_reported_before_training(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"^{tmp_path}.*Speech Commands is missing"):
        WordSequences(SpeechCommands(("yes",), str(tmp_path))).prepare_data()


# Manifests.


@pytest.fixture
def file(made, tmp_path):
    """The test set of another protocol than the default one's, as a manifest."""
    data = made(words=(3, 4), count=70)
    data.write_manifest(tmp_path / "three-or-four.jsonl")
    return tmp_path / "three-or-four.jsonl"


def altered(file, number, **changes):
    """The manifest with another line of that number, from 1 on, and a sum that is true."""
    utterances = read_manifest(file)
    utterances[number - 1] = dataclasses.replace(utterances[number - 1], **changes)
    write_manifest(utterances, file)
    return file


def test_a_manifest_is_the_test_set_that_was_written(made, file):
    drawn = made(words=(3, 4), count=70).read("test")
    read = made(manifests=[str(file)], snr_db=(-5, -5), gap_ms=(7, 7)).read("test")
    assert len(read) == len(drawn) == 7 and read.utterances == drawn.utterances
    assert_same(batch_of(read, 7), batch_of(drawn, 7))


def test_of_several_manifests_the_first_is_the_test_set_and_each_is_there_by_its_name(made, file, tmp_path):
    made(words=(5, 5)).write_manifest(tmp_path / "five.jsonl")
    data = made(manifests=[str(tmp_path / "five.jsonl"), str(file)])
    assert {name: len(items) for name, items in data.test_sets().items()} == {"five": 11, "three-or-four": 7}
    assert data.read("test").utterances == read_manifest(tmp_path / "five.jsonl")
    assert list(made().test_sets()) == ["drawn"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": ["go", "banana", "stop"]}, "the word 'banana' is outside the vocabulary.*seven.*go.*stop"),
        ({"clips": ["go/0", "go/7001", "stop/0"]}, "the clip 'go/.*' is not in the test split"),
        ({"noise": ["wind", 0]}, "the noise 'wind' does not exist"),
    ],
)
def test_what_the_source_has_not_is_named_with_its_line(made, file, changes, message):
    three = next(number for number, said in enumerate(read_manifest(file), 1) if len(said.words) == 3)
    altered(file, three, **changes)
    with pytest.raises(ValueError, match=f"^{re.escape(str(file))}: line {three}: {message}"):
        made(manifests=[str(file)]).read("test")


def test_an_altered_manifest_is_refused_before_training(made, file):
    content = bytearray(file.read_bytes())
    content[content.index(b'"snr_db":') + 9] ^= 1  # one digit
    file.write_bytes(content)
    for ask in (WordSequences.prepare_data, lambda data: data.read("test")):
        with pytest.raises(
            ValueError, match=f"^{re.escape(str(file))}: its sha256 is [0-9a-f]{{64}}, but SHA256SUMS says"
        ):
            ask(made(manifests=[str(file)]))


# What comes with the package: words of Speech Commands, so that results can be compared.
OWN = {"speech-commands-1-7": (1, 7, 1000), "speech-commands-8-12": (8, 12, 300)}  # fewest and most words, utterances
SMALLER = "VITSPEECH_SMALLER_DATA"  # the folder of the 15,062 clips that the manifests were drawn from
TWELVE = "bed cat happy down go left right up eight one zero five".split()


def test_the_manifests_that_come_with_the_package_are_unaltered():
    assert {file.stem for file in word_sequences.MANIFESTS.glob("*.jsonl")} == set(OWN)
    assert set(read_checksums(word_sequences.MANIFESTS / "SHA256SUMS")) == {f"{name}.jsonl" for name in OWN}


@pytest.mark.parametrize("name", OWN)
def test_a_shipped_manifest_matches_its_clips_and_the_length_in_its_name(name):
    fewest, most, count = OWN[name]
    utterances = read_manifest(manifest_file(name))
    assert len({utterance.id for utterance in utterances}) == len(utterances) == count
    assert {len(utterance.words) for utterance in utterances} == set(range(fewest, most + 1))
    for utterance in utterances:
        assert [clip.partition("/")[0] for clip in utterance.clips] == utterance.words
    assert {word for utterance in utterances for word in utterance.words} == set(TWELVE)


@pytest.mark.data
@pytest.mark.parametrize("name", OWN)
def test_the_clips_of_a_shipped_manifest_are_in_the_real_set(name):
    test = WordSequences(SpeechCommands(TWELVE), count=100, manifests=[name]).read("test")
    assert batch_of(test).waveforms.any(1).all()


@pytest.mark.skipif(SMALLER not in os.environ, reason=f"{SMALLER} does not name the set that the manifests are of")
@pytest.mark.parametrize("name", OWN)
def test_a_shipped_manifest_can_be_regenerated_from_the_subset_that_it_is_of(name):
    fewest, most, count = OWN[name]
    source = SpeechCommands(TWELVE, root=os.environ[SMALLER])
    data = WordSequences(source, words=(fewest, most), count=10 * count, manifests=[name])
    test = data.read("test")
    assert test.utterances == data.fixed("test", test.sampler).utterances
    assert batch_of(test).waveforms.any(1).all()
