"""The streams of the protocol: what is heard, in which order, and when each word is said."""

import math

import numpy
import pytest
import soundfile
from spotting_data import RATE_HZ, write, write_speech, write_words

from vitspeech.data.audio.reading import Notes, read_audio
from vitspeech.errors import InputError
from vitspeech.spotting.streams import PAUSE_S, backgrounds, sound_streams, speech_streams, word_streams


def made(makers):
    notes = Notes()
    streams = [stream for make in makers for stream in make(RATE_HZ, notes)]
    notes.warn()
    return streams


def test_the_utterances_of_a_chapter_follow_each_other(tmp_path):
    streams = made(speech_streams(write_speech(tmp_path), "all", None, 0))
    assert [len(stream.recordings) for stream in streams] == [3, 3, 3]
    second = streams[0].recordings[1]
    assert (second.name, second.speaker, second.words) == ("0/7/0-7-0001.wav", "0", ("it", "is", "late"))
    cut = streams[0].samples[round(second.start_s * RATE_HZ) : round(second.end_s * RATE_HZ)]
    assert cut.equal(read_audio(tmp_path / second.name))


def test_speech_is_limited_to_some_hours(tmp_path):
    root = write_speech(tmp_path)
    some = made(speech_streams(root, "all", 20 / 3600, 0))
    assert sum(len(stream.samples) for stream in some) == 24 * RATE_HZ  # utterances of 6 s
    again = made(speech_streams(root, "all", 20 / 3600, 0))
    assert [stream.recordings for stream in some] == [stream.recordings for stream in again]


def test_a_recording_that_cannot_be_read_is_named_before_anything_is_heard(tmp_path):
    (write_speech(tmp_path) / "1/7/1-7-0002.wav").write_bytes(b"not a recording")
    (tmp_path / "2/7/2-7-0000.wav").write_bytes(b"")
    with pytest.raises(InputError, match=r"2 of 9 files of speech .*1-7-0002\.wav: .*2-7-0000\.wav: "):
        speech_streams(tmp_path, "all", None, 0)
    with pytest.raises(InputError, match=r"2 of 9 files of sounds .*1-7-0002\.wav: .*2-7-0000\.wav: "):
        sound_streams(tmp_path)


def test_recordings_whose_channels_cancel_are_named(tmp_path):
    file = write_speech(tmp_path) / "1/7/1-7-0002.wav"
    samples, rate_hz = soundfile.read(file)
    soundfile.write(file, numpy.stack((samples, -samples), 1), rate_hz)
    with pytest.warns(UserWarning, match=r"1 recording is nearly silent because channels cancel .*1-7-0002\.wav"):
        made(speech_streams(tmp_path, "all", None, 0))


def test_words_are_said_at_their_times_with_pauses_between(tmp_path):
    keywords, others = word_streams(write_words(tmp_path), ["go", "stop"], "test", None, 0)
    streams = made(keywords)
    assert {(stream.name, stream.snr_db) for stream in streams} == {
        (f"keywords-000{number}", level) for number in range(3) for level in (math.inf, 20, 10, 5)
    }
    for stream in streams:
        assert len({word.speaker for word in stream.words}) == 1 and len(stream.words) == 4
        ends = [0.0, *(word.end_s for word in stream.words)]
        starts = [*(word.start_s for word in stream.words), len(stream.samples) / RATE_HZ]
        pauses = [start - end for start, end in zip(starts, ends, strict=True)]
        assert all(PAUSE_S[0] - 1e-3 <= pause <= PAUSE_S[1] + 1e-3 for pause in pauses)
    sound = streams[0].samples.double().numpy() / 32768
    for word in streams[0].words:
        said = sound[round(word.start_s * RATE_HZ) : round(word.end_s * RATE_HZ)]
        assert numpy.sqrt((said**2).mean()) == pytest.approx(0.05, rel=0.1) and 0.3 < word.end_s - word.start_s < 0.6
    before = sound[: round((streams[0].words[0].start_s - 0.05) * RATE_HZ)]
    assert not before.any()
    assert {word.label for stream in made(others) for word in stream.words} == {"cat"}


def test_a_phrase_is_said_from_a_folder_with_underscores(tmp_path):
    write_words(tmp_path, ("smart_mirror", "view glass", "cat"), count=1)
    keywords, others = word_streams(tmp_path, ["smart mirror", "view glass"], "test", None, 0, every_word=True)
    assert {word.label for stream in made(keywords) for word in stream.words} == {"smart mirror", "view glass"}
    assert {word.label for stream in made(others) for word in stream.words} == {"cat"}


def test_levels_of_noise_have_the_same_words_and_the_stated_ratio(tmp_path):
    keywords, _ = word_streams(write_words(tmp_path), ["go", "stop"], "test", None, 0)
    clean, *noisy = keywords[0](RATE_HZ, Notes())
    for stream in noisy:
        assert stream.words == clean.words
        noise = (stream.samples.double() - clean.samples.double()) / 32768
        assert 20 * math.log10(0.05 / noise.square().mean().sqrt()) == pytest.approx(stream.snr_db, abs=0.1)


def test_the_streams_follow_from_the_seed(tmp_path):
    def first(seed):
        return made(word_streams(write_words(tmp_path), ["go", "stop"], "test", None, seed)[0])[1].samples

    assert first(0).equal(first(0)) and not (len(first(1)) == len(first(0)) and first(1).equal(first(0)))


def test_the_number_of_clips_is_limited(tmp_path):
    keywords, others = word_streams(write_words(tmp_path), ["go", "stop"], "all", 5, 0)
    assert sum(len(next(make(RATE_HZ, Notes())).words) for make in keywords) == 5
    assert sum(len(stream.words) for stream in made(others)) == 5


def test_noise_comes_from_the_splits_own_part_of_the_recordings(tmp_path):
    hertz = {"train": 300, "validation": 700, "test": 1500}  # of a sine in each part: the first 80 %, then 10 % each
    parts = [
        0.2 * numpy.sin(2 * numpy.pi * hertz[split] * numpy.arange(share * RATE_HZ // 10) / RATE_HZ)
        for split, share in (("train", 80), ("validation", 10), ("test", 10))
    ]
    write(write_words(tmp_path) / "_background_noise_" / "hum.wav", numpy.concatenate(parts))
    for split, frequency in hertz.items():
        clean, _, noisy, _ = word_streams(tmp_path, ["go"], split, None, 0)[0][0](RATE_HZ, Notes())
        noise = (noisy.samples.double() - clean.samples.double()).numpy()
        spectrum = numpy.abs(numpy.fft.rfft(noise * numpy.hanning(len(noise))))
        assert spectrum.argmax() * RATE_HZ / len(noise) == pytest.approx(frequency, abs=3)


def test_recordings_of_noise_whose_names_differ_by_the_ending_are_both_heard(tmp_path):
    for name in ("hum.wav", "hum.flac"):
        write(tmp_path / "_background_noise_" / name, numpy.full(10 * RATE_HZ, 0.1))
    assert sorted(backgrounds(tmp_path, "test")) == ["hum.flac", "hum.wav"]


def test_a_clip_that_cannot_be_read_is_named_before_anything_is_heard(tmp_path):
    (write_words(tmp_path) / "test/cat/test0_nohash_1.wav").write_text("not a recording")
    with pytest.raises(InputError, match=r"test/cat/test0_nohash_1\.wav"):
        word_streams(tmp_path, ["go"], "test", None, 0)


@pytest.mark.parametrize("seconds", [0.05, 61])
def test_a_word_that_is_too_short_or_too_long_is_named_before_anything_is_heard(tmp_path, seconds):
    write(write_words(tmp_path) / "test/go/test0_nohash_7.wav", numpy.full(round(seconds * RATE_HZ), 0.1))
    with pytest.raises(InputError, match=r"test/go/test0_nohash_7\.wav: lasts"):
        word_streams(tmp_path, ["go"], "test", None, 0)


def test_every_word_has_recordings_if_all_are_needed(tmp_path):
    root = write_words(tmp_path)
    assert word_streams(root, ["go", "left"], "test", None, 0)[0]
    with pytest.raises(InputError, match="has no recordings of left in the split test"):
        word_streams(root, ["go", "left"], "test", None, 0, every_word=True)
    with pytest.raises(InputError, match=r"has no recordings of (go|stop) in the split test among 1 clips"):
        word_streams(root, ["go", "stop"], "test", 1, 0, every_word=True)
    with pytest.raises(InputError, match="has no recordings of left, right in the split test"):
        word_streams(root, ["left", "right"], "test", None, 0)
