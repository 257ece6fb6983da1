"""The end of a file: joined, of variable bit rate, from a pipe or a live encoder, and truncated ones."""

import io
import re
import struct
from pathlib import Path

import numpy
import pytest
import soundfile

from vitspeech.data.audio.audio_file import UNMARKED, AudioFile
from vitspeech.data.audio.levels import CANCELED

GENERATOR = numpy.random.default_rng(0)
NOISE = 0.2 * GENERATOR.standard_normal(24_005)
FORMATS = {"ogg": {}, "opus": {"format": "OGG"}, "flac": {}, "mp3": {}, "wav": {}, "aiff": {}, "au": {}, "caf": {}}


def encoded(ending="wav", samples=NOISE, rate_hz=16_000, **options):
    """The content of a file of samples."""
    options = {"format": ending, **FORMATS.get(ending, {}), "subtype": "OPUS" if ending == "opus" else None} | options
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, **options)
    return file.getvalue()


@pytest.fixture
def read(tmp_path):
    """The samples and the notes of a file with some content."""

    def read(content: bytes, ending: str = "wav"):
        path = Path(tmp_path / f"a.{ending}")
        path.write_bytes(content)
        file = AudioFile(path)
        samples = file.read()
        assert len(samples) == file.frames
        return samples, file.notes

    return read


def refused(read, content, ending, reason=":"):
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        read(content, ending)
    assert f"a.{ending}: " in str(caught.value) and "\n" not in str(caught.value)


def without_tag(content):
    """An MP3 without its first frame, which states how many there are."""
    tag = max(content.find(b"Xing"), content.find(b"Info"))
    return content[content.find(content[:2], tag) :]


@pytest.mark.parametrize("ending", FORMATS)
def test_joined_files_are_read_one_after_another(read, ending):
    whole, notes = read(encoded(ending), ending)
    joined, _ = read(3 * encoded(ending), ending)
    assert not notes and numpy.array_equal(joined, numpy.tile(whole, 3))


@pytest.mark.parametrize("ending", sorted({*FORMATS} - {"flac", "mp3"}))  # libsndfile writes no bytes of these
def test_a_joined_file_may_have_empty_parts_but_not_these_alone(read, ending):
    whole, empty = encoded(ending), encoded(ending, NOISE[:0])
    assert len(read(whole + empty + whole, ending)[0]) == 2 * len(read(empty + whole, ending)[0]) == 2 * len(NOISE)
    refused(read, 2 * empty, ending, "no samples")


@pytest.mark.parametrize("first, second", [
    ("wav", "flac"), ("wav", "mp3"), ("aiff", "ogg"), ("au", "wav"), ("ogg", "mp3"), ("ogg", "wav"), ("mp3", "ogg"),
    ("mp3", "wav"), ("flac", "wav"), ("flac", "ogg"),
])  # fmt: skip
def test_a_file_joined_of_different_kinds_is_not_read_in_part(read, first, second):
    refused(read, encoded(first) + encoded(second), first, "different kinds")


def test_a_flac_may_keep_the_header_of_a_wav(read):
    content, header = encoded("flac"), b"riff" + wav()[:12]
    kept = content[:42] + b"\x02" + len(header).to_bytes(3) + header + content[42:]
    assert numpy.array_equal(read(kept, "flac")[0], read(content, "flac")[0])


def test_files_of_two_codecs_may_be_joined_but_not_of_two_rates(read):
    vorbis, opus = encoded("ogg"), encoded("opus")
    assert len(read(vorbis + opus, "ogg")[0]) == 2 * len(NOISE)
    for ending in ("ogg", "mp3", "flac"):
        refused(read, encoded(ending) + encoded(ending, rate_hz=8000), ending, "16,000 Hz in 1 channel and 8,000 Hz")


@pytest.mark.parametrize("rate_hz, channels", [(8000, 1), (16_000, 1), (22_050, 2), (44_100, 2), (48_000, 1)])
def test_an_mp3_is_read_to_its_last_frame_whatever_its_bit_rate(read, capfd, rate_hz, channels):
    noise, quiet = 0.2 * GENERATOR.standard_normal((rate_hz, channels)), numpy.zeros((2 * rate_hz, channels))
    for parts in ((noise, quiet), (quiet, noise)):  # the first frames are larger, or smaller, than the others
        content = encoded("mp3", numpy.concatenate(parts), rate_hz, bitrate_mode="VARIABLE", compression_level=0.3)
        expected, _ = read(content, "mp3")
        assert len(expected) == 3 * rate_hz
        bare, art = without_tag(content), b"ID3\3\0\0\0\0\x20\0" + GENERATOR.bytes(4096)
        samples, _ = read(bare, "mp3")  # with what the encoder adds at both ends
        assert 0 < len(samples) - len(expected) <= 4 * 1152
        delay = 1105
        assert abs(samples[delay:][: len(expected)] - expected).max() < 1e-4
        assert len(read(art + content + b"TAG" + bytes(125), "mp3")[0]) == len(expected)
        assert len(read(content + art + content, "mp3")[0]) == 2 * len(expected)
        assert len(read(bare + art + bare, "mp3")[0]) == 2 * len(samples)
        assert len(read(content + bare, "mp3")[0]) == 2 * len(samples)  # more frames than the tag says
        refused(read, content[: len(content) // 2], "mp3", "frames are present")
        refused(read, bare[:-9], "mp3", "truncated: its last frame is cut")
    assert capfd.readouterr() == ("", "")  # of the decoder


def test_a_live_flac_is_read_as_far_as_it_goes(read):
    content = bytearray(encoded("flac"))
    content[21] &= 0xF0  # the 36 bits of the number of samples
    content[22:26] = bytes(4)
    samples, notes = read(bytes(content), "flac")
    assert len(samples) == len(NOISE) and notes == {UNMARKED}
    assert len(read(bytes(2 * content), "flac")[0]) == 2 * len(NOISE)
    refused(read, bytes(content[: len(content) // 2]), "flac", "truncated")
    tagged = bytes(content) + b"TAG" + bytes(125)
    assert [len(read(count * tagged, "flac")[0]) for count in (1, 2)] == [len(NOISE), 2 * len(NOISE)]


@pytest.mark.parametrize("ending", ["ogg", "opus"])
def test_an_ogg_without_a_last_page_is_read_and_within_a_page_it_is_truncated(read, ending):
    content = encoded(ending)
    last = content.rfind(b"OggS")
    samples, notes = read(content[:last], ending)
    assert 8000 < len(samples) < len(NOISE) and notes == {UNMARKED}
    for cut in (content[: last - 9], content[: last - 9] + content, content[:-1], content[: last + 20]):
        refused(read, cut, ending, "truncated: a page is cut")


def wav(data_size=None, riff_size=None, extra=b"", samples=NOISE):
    """A WAV whose header says what it is told to, with `extra` chunks before its samples."""
    content = (samples * 32768).astype(numpy.int16).tobytes()
    data_size = len(content) if data_size is None else data_size
    riff_size = len(content) + len(extra) + 36 if riff_size is None else riff_size
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", riff_size, b"WAVE", b"fmt ", 16, 1, 1, 16_000, 32_000, 2, 16)
    return head + extra + struct.pack("<4sI", b"data", data_size) + content


@pytest.mark.parametrize("data_size", [0, 0x7FFFF000, 0xFFFFFFFF])
@pytest.mark.parametrize("riff_size", [0, 8, 36, 0x7FFFF024, 0xFFFFFFFF])
def test_a_wav_from_a_pipe_is_read_as_far_as_it_goes(read, data_size, riff_size):
    whole, _ = read(wav())
    for extra in (b"", struct.pack("<4sI6s", b"LIST", 6, b"INFOab")):
        samples, notes = read(wav(data_size, riff_size, extra))
        assert numpy.array_equal(samples, whole) and notes == {UNMARKED}
    refused(read, wav(0xFFFFFFFF, 0xFFFFFFFF, samples=NOISE[:0]), "wav", "no samples")


@pytest.mark.parametrize("ending, field, size", [
    ("au", ".snd", b"\xff" * 4), ("caf", "data", b"\xff" * 8), ("aiff", "SSND", bytes(4)),
    ("aiff", "SSND", b"\x7f\xff\xff\xff"), ("aiff", "SSND", b"\x7f\0\0\x08"), ("au", ".snd", bytes(4)),
    ("rf64", "ds64", bytes(28)),
])  # fmt: skip
def test_other_containers_without_a_length_are_read_as_far_as_they_go(read, ending, field, size):
    content = encoded(ending)
    place = content.find(field.encode()) + {"au": 8, "rf64": 8}.get(ending, 4)
    samples, notes = read(content[:place] + size + content[place + len(size) :], ending)
    assert len(samples) == len(NOISE) and notes == {UNMARKED}


def test_a_header_that_states_too_little_does_not_lose_the_end(read):
    whole, au = wav(), encoded("au")
    for content, ending in ((wav(8000, 8036), "wav"), (au[:8] + (8000).to_bytes(4) + au[12:], "au")):
        samples, notes = read(content, ending)
        assert len(samples) == len(NOISE) and notes == {UNMARKED}
    for rest in (b"LIST\4\0\0\0abcd", b"\0LIST\4\0\0\0abcd", b"TAG\0" + bytes(99) + b"a", bytes(512), b"abc"):
        samples, notes = read(whole + rest)
        assert len(samples) == len(NOISE) and not notes


@pytest.mark.parametrize("ending", ["wav", "flac", "opus"])
def test_channels_that_cancel_each_other_almost_are_noted(read, ending):
    noise = 0.002 * GENERATOR.standard_normal(len(NOISE))
    for other, is_canceled in ((-NOISE, True), (noise - NOISE, True), (0 * NOISE, False), (-NOISE[::-1], False)):
        _, notes = read(encoded(ending, numpy.stack([NOISE, other], 1)), ending)
        assert notes == ({CANCELED} if is_canceled else set())


@pytest.mark.parametrize("ending, count", [("wav", 1), ("ogg", 1), ("flac", 1), ("ogg", 2)])
def test_a_file_is_opened_once_and_may_be_read_again(tmp_path, monkeypatch, ending, count):
    (tmp_path / "a").write_bytes(count * encoded(ending))
    opened, start = [], soundfile.SoundFile.__init__
    monkeypatch.setattr(soundfile.SoundFile, "__init__", lambda file, *a: (opened.append(file), start(file, *a))[1])
    file = AudioFile(tmp_path / "a")
    samples = file.read()
    assert len(opened) == (1 if count == 1 else 2 * count) and all(source.closed for source in opened)
    assert numpy.array_equal(file.read(), samples)


@pytest.mark.parametrize("options", [
    {}, {"subtype": "FLOAT"}, {"subtype": "GSM610"}, {"ending": "aiff"}, {"ending": "au"}, {"ending": "rf64"},
    {"ending": "w64"}, {"ending": "flac"}, {"ending": "ogg"}, {"ending": "caf"},
], ids=str)  # fmt: skip
def test_a_truncated_file_is_not_read_in_part(read, options):
    content, ending = encoded(**options), options.get("ending", "wav")
    assert len(NOISE) <= len(read(content, ending)[0]) < len(NOISE) + 320
    refused(read, content[: len(content) // 2], ending)
    refused(read, content[:30], ending)


@pytest.mark.parametrize("content, ending", [
    (encoded("caf")[:20] + b"free" + b"\x7f" * 8 + encoded("caf")[20:], "caf"),
    (encoded()[:36] + b"junk" + b"\xff" * 4 + encoded()[36:], "wav"),
    (b"ID3\3\0\0\0\0\0\0" + bytes(range(256)) * 40, "mp3"), (b"\xff\xfb\x90\x00" + bytes(9000), "bin"),
    (b"\0\0\0\x20ftypM4A " + bytes(999), "mp3"), (b"\xff\xf1\x50\x80\x02\x1f\xfc" + bytes(999), "mp3"),
    (b"version https://git-lfs.github.com/spec/v1\n", "mp3"),
], ids=["caf", "wav", "tag", "frame", "m4a", "aac", "pointer"])  # fmt: skip
def test_sizes_beyond_the_end_and_a_single_frame_are_no_recordings(read, content, ending, capfd):
    refused(read, content, ending)
    assert capfd.readouterr() == ("", "")
