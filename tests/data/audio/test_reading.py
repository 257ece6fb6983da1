"""Reading recordings: any rate, channels and coding in, int16 of one channel out; broken files named."""

import io
import os
import re
import warnings

import numpy
import pytest
import soundfile
import torch

from vitspeech.data.audio.reading import (
    AudioParts,
    check_audio,
    fit_length,
    plain_samples,
    read_audio,
    read_clip,
    read_clips,
)

NOISE = numpy.random.default_rng(0).integers(-9000, 9000, 4801, dtype=numpy.int16)


def tone(hz, rate_hz, seconds=0.5, peak=0.5):
    return peak * numpy.sin(2 * numpy.pi * hz * numpy.arange(int(rate_hz * seconds)) / rate_hz)


def loudest_hz(samples, rate_hz=16_000):
    spectrum = torch.fft.rfft(samples.double() * torch.hann_window(len(samples), dtype=torch.float64)).abs()
    return spectrum.argmax().item() * rate_hz / len(samples)


def written(path, samples=NOISE, rate_hz=16_000, **kind):
    soundfile.write(path, samples, rate_hz, **kind)
    return path


def refused(path, reason, reader=read_audio):
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        reader(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("name, subtype", [("a.wav", "PCM_16"), ("a.flac", "PCM_16"), ("a.wav", "PCM_32")])
def test_sixteen_bits_are_read_as_they_are(tmp_path, name, subtype):
    read = read_audio(written(tmp_path / name, subtype=subtype))
    assert read.dtype == torch.int16 and read.tolist() == NOISE.tolist()
    read.zero_()  # memory of its own, that may be written


def wav(samples=NOISE, rate_hz=16_000, **kind):
    return written(io.BytesIO(), samples, rate_hz, format="WAV", **kind).getvalue()


PLAIN = wav()
WITH_COMMENT = PLAIN[:36] + b"LIST\4\0\0\0INFO" + PLAIN[36:]  # before the samples
WITH_COMMENT = WITH_COMMENT[:4] + (len(WITH_COMMENT) - 8).to_bytes(4, "little") + WITH_COMMENT[8:]


@pytest.mark.parametrize(
    ("content", "is_plain"),
    [
        (PLAIN, True),
        (wav(NOISE[:1]), True),
        (PLAIN + b"\0", False),
        (PLAIN + b"\1" * 8, False),
        (WITH_COMMENT, False),
        (wav(subtype="PCM_U8"), False),
        (wav(numpy.stack((NOISE // 2 * 2, 0 * NOISE), 1)), False),
        (wav(rate_hz=8000), False),
    ],
    ids=["plain", "one sample", "a byte follows", "bytes follow", "a chunk before", "8 bits", "stereo", "8 kHz"],
)
def test_plain_files_are_recognized_and_read_as_libsndfile_reads_them(tmp_path, content, is_plain):
    file = tmp_path / "a.wav"
    file.write_bytes(content)
    expected, rate_hz = soundfile.read(file, dtype="int16", always_2d=True)
    plain = plain_samples(file)
    assert (plain is not None) == is_plain
    assert plain is None or numpy.array_equal(plain[:, None], expected)
    assert read_audio(file, rate_hz).tolist() == expected.mean(1).tolist()


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (PLAIN[:-1], "a.wav", "truncated"),
        (PLAIN[:-1000], "a.wav", "truncated"),
        (PLAIN[:44], "a.wav", "truncated"),
        (wav(NOISE[:0]), "a.wav", "no samples"),
        (b"", "a.wav", "empty"),
        (PLAIN, "a.raw", "samples without a header"),
        (PLAIN, "A.RAW", "samples without a header"),
    ],
)
@pytest.mark.parametrize("reader", [read_audio, check_audio])
def test_files_that_are_nearly_plain_are_refused(tmp_path, content, name, reason, reader):
    (tmp_path / name).write_bytes(content)
    assert plain_samples(tmp_path / name) is None
    refused(tmp_path / name, reason, reader)


@pytest.mark.parametrize(
    ("rate_hz", "frames"),
    [
        (16_000, 4801),
        (11_025, 4802),
        (44_099, 4805),
        (44_100, 441 * 30 + 328),  # 1/441 above a whole number of samples at 16 kHz
        (44_100, 441 * 4000 + 328),  # as well, which single precision does not tell from the whole number
    ],
)
def test_the_duration_in_the_header_is_that_of_the_samples_that_are_read(tmp_path, rate_hz, frames):
    file = written(tmp_path / "a.wav", numpy.zeros(frames, numpy.int16), rate_hz)
    assert check_audio(file) == len(read_clip(file)) / 16_000


def test_every_depth_is_scaled_to_sixteen_bits(tmp_path):
    values = numpy.array([-1.0, -0.5, 0.0, 0.25, 0.5] * 400)
    for subtype in ("PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"):
        read = read_audio(written(tmp_path / "a.wav", values, subtype=subtype))
        assert read.tolist() == (values * 32768).astype(int).tolist(), subtype


@pytest.mark.parametrize("name, subtype", [("a.ogg", "VORBIS"), ("a.opus", "OPUS"), ("a.mp3", None), ("a.wav", "ULAW")])
def test_lossy_recordings_keep_their_tone(tmp_path, name, subtype):
    file_format = "OGG" if name == "a.opus" else None
    read = read_audio(written(tmp_path / name, tone(1000, 16_000), subtype=subtype, format=file_format))
    assert len(read) == 8000 and loudest_hz(read) == 1000
    assert read.abs().max() == pytest.approx(16384, rel=0.1)


@pytest.mark.parametrize("rate_hz", [8000, 11_025, 48_000, 44_099])
def test_resampling_keeps_frequency_level_and_duration(tmp_path, rate_hz):
    read = read_audio(written(tmp_path / "a.wav", tone(1000, rate_hz), rate_hz))
    assert abs(len(read) - 8000) <= 2 and loudest_hz(read) == pytest.approx(1000, abs=1)
    assert read[800:-800].abs().max() == pytest.approx(16384, rel=0.01)


def test_channels_are_averaged(tmp_path):
    left = tone(440, 44_100)
    alike = read_audio(written(tmp_path / "alike.wav", numpy.stack([left, left], 1), 44_100))
    assert alike.equal(read_audio(written(tmp_path / "mono.wav", left, 44_100)))
    assert loudest_hz(alike) == 440
    opposed = read_audio(written(tmp_path / "opposed.wav", numpy.stack([left, -left], 1), 44_100))
    assert opposed.abs().max() <= 1
    three = numpy.tile(numpy.array([300, 600, -300], dtype=numpy.int16), (2000, 1))
    assert (read_audio(written(tmp_path / "three.wav", three)) == 200).all()


def test_what_is_not_a_recording_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.wav"):
        read_audio(tmp_path / "nowhere.wav")
    (tmp_path / "empty.wav").touch()
    refused(tmp_path / "empty.wav", "empty (0 bytes)")
    (tmp_path / "text.wav").write_text("no recording\n" * 100)
    refused(tmp_path / "text.wav", "not a recording that can be read (Format not recognised)")
    refused(written(tmp_path / "void.wav", NOISE[:0]), "no samples")
    refused(written(tmp_path / "slow.wav", NOISE, 10), "a sample rate of 10 Hz is outside 1,000 to 384,000 Hz")


@pytest.mark.parametrize("value, reason", [
    (numpy.nan, "not finite"), (-numpy.inf, "not finite"), (32_000, "floats up to 32000 are not samples within ±1"),
    (-128, "floats up to 128 are not samples within ±1; divide them by full scale"),
])  # fmt: skip
def test_floats_that_are_no_samples_within_one_are_refused(tmp_path, value, reason):
    values = tone(440, 16_000)
    values[77] = value
    for subtype in ("FLOAT", "DOUBLE"):
        path = written(tmp_path / "a.wav", numpy.stack([values, tone(9, 16_000)], 1), subtype=subtype)
        refused(path, reason)
        refused(path, reason, lambda path: list(AudioParts(path)))


def test_a_clip_is_neither_too_short_nor_too_long(tmp_path):
    refused(written(tmp_path / "tick.wav", NOISE[:800]), "lasts 0.05 s, below 0.1 s", read_clip)
    assert len(read_audio(tmp_path / "tick.wav")) == 800
    assert len(read_clip(written(tmp_path / "word.wav", NOISE[:1600]))) == 1600
    minute = numpy.zeros(60 * 16_000, numpy.int16)
    assert len(read_clip(written(tmp_path / "minute.wav", minute))) == 960_000
    over = written(tmp_path / "over.wav", numpy.zeros(60 * 16_000 + 1600, numpy.int16))
    refused(over, "lasts 60.1 s, above 60 s", read_clip)


def test_of_long_clips_the_loudest_stretch_is_kept():
    samples = torch.full((50_000,), 100, dtype=torch.int16)
    samples[1000:2000] = 5000
    samples[9000:29_000] = 2900
    samples[30_000:40_000] = -3000
    assert (fit_length(samples, 10_000) == -3000).all()
    assert (fit_length(samples, 1000) == 5000).all()


def test_a_short_word_comes_to_the_middle():
    samples = torch.zeros(40_000, dtype=torch.int16)
    samples[20_000:22_000] = 9000
    places = fit_length(samples, 16_000).nonzero()
    assert len(places) == 2000 and places[0] == pytest.approx(7000, abs=50)
    assert fit_length(torch.zeros(5000, dtype=torch.int16), 1000).tolist() == [0] * 1000


def test_silent_canceled_and_clipped_recordings_are_named_in_a_warning_each(tmp_path):
    clip = numpy.zeros(16_000, numpy.int16)
    loud = {"good": 3000, "hiss": 17, "faint": 16, "dead": 0}
    files = [written(tmp_path / f"{name}.wav", clip + numpy.int16(peak)) for name, peak in loud.items()]
    for name, peak, count in (("few", 32767, 15), ("top", 32767, 16), ("low", -32768, 400)):
        samples = numpy.where(numpy.arange(16_000) < count, peak, 3000).astype("i2")
        files.append(written(tmp_path / f"{name}.wav", samples))
    files.append(written(tmp_path / "opposed.flac", numpy.stack([tone(440, 44_100), -tone(440, 44_100)], 1), 44_100))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_clips(files, 16_000)
    clipped, canceled, silent = (str(warning.message) for warning in caught)
    assert "2 recordings are silent" in silent and silent.endswith(f": {files[3]}, {files[2]}")
    assert "2 recordings are clipped" in clipped and clipped.endswith(f": {files[6]}, {files[5]}")
    assert "1 recording is nearly silent because channels cancel" in canceled and canceled.endswith(f": {files[7]}")
    read_clips([file for file in files if file.stem in ("good", "hiss", "few")], 16_000)  # a warning would be an error


def test_a_name_that_is_not_utf_8_is_read(tmp_path):
    path = tmp_path / os.fsdecode(b"bad\xff.wav")
    written(tmp_path / "good.wav").rename(path)
    assert torch.equal(read_audio(path), torch.from_numpy(NOISE))
    assert b"".join(part.numpy().tobytes() for part in AudioParts(path, 16_000)) == NOISE.tobytes()
