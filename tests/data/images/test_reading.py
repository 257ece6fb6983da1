"""Reading pictures: any size and mode in, RGB squares out; broken files named."""

import numpy
import pytest
import torch
from PIL import Image, ImageOps

from vitspeech.data.images import reading
from vitspeech.data.images.reading import read_picture

RED = (255, 0, 0)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1", "RGBA", "LA", "CMYK", "I;16", "I", "F", "HSV", "YCbCr"])
def test_every_mode_is_read_as_three_channels(tmp_path, mode):
    path = tmp_path / ("picture.tiff" if mode in ("CMYK", "I", "F", "YCbCr", "HSV") else "picture.png")
    source = Image.new("RGB", (53, 37), RED)
    if mode == "HSV":
        source.save(path)
    else:
        (Image.new(mode, (53, 37)) if mode.startswith(("I", "F")) else source.convert(mode)).save(path)
    pixels = read_picture(path, 17)
    assert pixels.shape == (3, 17, 17) and pixels.dtype == torch.uint8
    if mode in ("RGB", "RGBA", "P", "CMYK", "YCbCr", "HSV"):
        assert (pixels[0] > 250).all() and (pixels[1:] < 5).all()


def test_sixteen_bits_keep_their_range(tmp_path):
    values = numpy.linspace(0, 65535, 64).reshape(8, 8).astype(numpy.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    pixels = read_picture(tmp_path / "deep.png", 8)[0].flatten()
    assert pixels[0] == 0 and pixels[-1] == 255
    assert (pixels.numpy() == numpy.round(values.flatten() / 257)).all()


def test_the_middle_square_is_taken(tmp_path):
    wide = Image.new("RGB", (90, 30), "blue")
    wide.paste(RED, (30, 0, 60, 30))
    wide.save(tmp_path / "wide.png")
    pixels = read_picture(tmp_path / "wide.png", 30)
    assert (pixels[0] == 255).all() and (pixels[2] == 0).all()


def test_a_camera_held_sideways_gives_an_upright_picture(tmp_path):
    picture = Image.new("RGB", (20, 20), "blue")
    picture.paste(RED, (0, 0, 20, 10))  # red on top
    turned = picture.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # "rotate 90° clockwise to see it upright"
    turned.save(tmp_path / "turned.png", exif=exif)
    assert (read_picture(tmp_path / "turned.png", 20)[0, :9] == 255).all()


def test_broken_files_are_reported_with_the_reason(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("no picture")
    noise = numpy.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=numpy.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:4000])
    for name, reason in (("empty", "0 bytes"), ("text", "not a picture"), ("half", "truncated")):
        with pytest.raises(ValueError, match=rf"{name}\.png: .*{reason}"):
            read_picture(tmp_path / f"{name}.png", 8)


def test_a_large_jpeg_is_decoded_small_and_looks_the_same(tmp_path, monkeypatch):
    noise = numpy.random.default_rng(0).integers(0, 256, (16, 20, 3)).astype(numpy.uint8)
    Image.fromarray(noise).resize((1600, 1280), Image.Resampling.BICUBIC).save(tmp_path / "photo.jpg")
    decoded, fit = [], ImageOps.fit
    monkeypatch.setattr(ImageOps, "fit", lambda picture, *rest: decoded.append(picture.size) or fit(picture, *rest))
    small = read_picture(tmp_path / "photo.jpg", 32).float()
    monkeypatch.setattr(reading, "DECODED", 1000)
    whole = read_picture(tmp_path / "photo.jpg", 32).float()
    assert decoded == [(200, 160), (1600, 1280)]
    assert (small - whole).abs().max() <= 4
