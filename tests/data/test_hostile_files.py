"""Recordings and pictures made to hang, to fill the memory or to run another program: one line each, at once."""

import os
import random
import struct
import time
import warnings
import zlib

import numpy
import pytest
import soundfile
from PIL import Image

from vitspeech.data.audio import audio_file
from vitspeech.data.audio.reading import read_audio, read_clip
from vitspeech.data.images import pictures
from vitspeech.data.images.reading import read_picture
from vitspeech.errors import InputError


def wav(rate_hz=16_000, channels=1, bits=16, data=b"\0" * 3200, stated=None, riff=None):
    """A WAV file; its header may state anything."""
    stated = len(data) if stated is None else stated
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", 1, channels, rate_hz, rate_hz * block % 2**32, block % 2**16, bits)
    size = 36 + stated if riff is None else riff
    head = b"RIFF" + struct.pack("<I", size % 2**32) + b"WAVEfmt " + struct.pack("<I", 16)
    return head + form + b"data" + struct.pack("<I", stated) + data


def png(width, height, data=b"", *, text=b""):
    """A PNG file of this size on paper."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    comment = chunk(b"zTXt", b"Comment\0\0" + text) if text else b""
    return b"\x89PNG\r\n\x1a\n" + header + comment + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(hacked) print\n%%EOF\n"
SOUNDS = {
    "1 GB in a header": wav(stated=2**30),
    "rate of 0": wav(rate_hz=0),
    "rate of 1 Hz": wav(rate_hz=1),
    "rate of 2^31": wav(rate_hz=2**31),
    "rate of 2^32": wav(rate_hz=2**32 - 1),
    "no channels": wav(channels=0),
    "1,025 channels": wav(channels=1025),
    "65,535 channels": wav(channels=65_535, bits=8),
    "0 bits": wav(bits=0),
    "255 bits": wav(bits=255),
    "nothing but a header": wav(data=b""),
    "half a header": wav()[:20],
    "FLAC of nothing": b"fLaC" + b"\x80\0\0\x22" + b"\xff" * 34,
    "OGG of nothing": b"OggS" + b"\0" * 200,
    "MP3 of noise": b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + random.Random(0).randbytes(2000),
    "text": b"RIFF, she said",
    "zeros": b"\0" * 5000,
}
PICTURES = {
    "2.5 gigapixels": png(50_000, 50_000),
    "2^31 wide": png(2**31 - 1, 2**31 - 1),
    "a wide line": png(2**31 - 1, 1),
    "no width": png(0, 5),
    "cut": png(100, 100, b"\0" * 50),
    "a text that grows": png(8, 8, b"\0" * 200, text=zlib.compress(b"a" * 10**8)),
    "PostScript": EPS,
    "GIF of nothing": b"GIF89a\xff\xff\xff\xff\xf7\0\0",
    "TIFF of nothing": b"II*\0\xff\xff\xff\xff",
    "BMP of nothing": b"BM" + b"\xff" * 60,
    "PPM of a trillion": b"P6 1000000 1000000 255\n",
    "WEBP of nothing": b"RIFF\xff\xff\xff\xffWEBPVP8 ",
    "JPEG of nothing": b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xd9",
    "text": b"P6, she said",
}


def refused(read, path, message=None):
    start = time.process_time()
    with warnings.catch_warnings(), pytest.raises(InputError, match=message) as raised:
        warnings.simplefilter("error")
        read(path)
    assert str(raised.value).startswith(f"{path}: ") and len(str(raised.value).splitlines()) == 1
    assert time.process_time() - start < 3


@pytest.mark.parametrize("content", SOUNDS.values(), ids=SOUNDS)
def test_a_hostile_recording_is_refused_at_once(tmp_path, content):
    (tmp_path / "sound.wav").write_bytes(content)
    refused(read_clip, tmp_path / "sound.wav")


@pytest.mark.parametrize("content", PICTURES.values(), ids=PICTURES)
def test_a_hostile_picture_is_refused_at_once(tmp_path, content):
    (tmp_path / "picture.png").write_bytes(content)
    refused(lambda path: read_picture(path, 8), tmp_path / "picture.png")


@pytest.mark.parametrize("read", [read_audio, lambda path: read_picture(path, 8)], ids=["sound", "picture"])
@pytest.mark.parametrize("name", ["x.wav", "two\nlines.png", "x.raw", "x.au", "x.mat", "x.ircam", "x.eps", "x"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path, read, name):
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        read(path)
    path.rmdir()
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="not a regular file"):
        read(path)
    path.unlink()
    path.touch()
    with pytest.raises(InputError, match=r"empty \(0 bytes\)"):
        read(path)
    path.write_bytes(b"neither a sound nor a picture")
    with pytest.raises(InputError):
        read(path)


def test_sixty_hours_of_zeros_are_refused_by_the_header(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "zeros.flac", numpy.zeros(16_000 * 20, numpy.int16), 16_000)
    monkeypatch.setattr(audio_file, "MOST_SAMPLES", 16_000 * 19)
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("was read"))
    refused(read_audio, tmp_path / "zeros.flac", "lasts 0.0 hours in 1 channel, more than fits into memory")


def test_a_file_that_is_called_like_standard_input_is_read(tmp_path, monkeypatch):
    soundfile.write(tmp_path / "x.wav", numpy.zeros(1600, numpy.int16), 16_000)
    (tmp_path / "x.wav").rename(tmp_path / "-")
    monkeypatch.chdir(tmp_path)
    assert len(read_audio("-")) == 1600


def test_pictures_are_counted_before_they_are_decoded(tmp_path, monkeypatch):
    Image.new("RGB", (400, 300)).save(tmp_path / "large.png")
    Image.new("RGB", (400, 300)).save(tmp_path / "large.jpg")
    monkeypatch.setattr(pictures, "MOST_PIXELS", 50_000)
    refused(lambda path: read_picture(path, 8), tmp_path / "large.png", "400 × 300 pixels are too many to decode")
    assert read_picture(tmp_path / "large.jpg", 8).shape == (3, 8, 8)  # decoded at an eighth of its size
