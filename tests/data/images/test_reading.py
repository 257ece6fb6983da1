"""Reading pictures: any size and mode in, RGB squares out; broken files named."""

import struct

import numpy
import pyarrow
import pytest
import torch
from PIL import Image, ImageOps

from vitspeech.data.images import pictures
from vitspeech.data.images.reading import normalize, read_picture
from vitspeech.data.rows import Content

RED = (255, 0, 0)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1", "RGBA", "LA", "CMYK", "I;16", "I", "F", "HSV", "YCbCr"])
def test_every_mode_is_read_as_three_channels(tmp_path, mode):
    path = tmp_path / ("picture.tiff" if mode in ("CMYK", "I", "F", "HSV") else "picture.png")
    path = tmp_path / "picture.jpg" if mode == "YCbCr" else path
    source = Image.new("RGB", (53, 37), RED)
    if mode == "HSV":
        source.save(path)
    else:
        (Image.new(mode, (53, 37)) if mode.startswith(("I", "F")) else source.convert(mode)).save(path)
    pixels = read_picture(path, 17)
    assert pixels.shape == (3, 17, 17) and pixels.dtype == torch.uint8
    if mode in ("RGB", "RGBA", "P", "CMYK", "YCbCr", "HSV"):
        assert (pixels[0] > 250).all() and (pixels[1:] < 5).all()


def test_values_mean_the_same_in_every_format(tmp_path):
    deep = numpy.linspace(9000, 30_000, 64).reshape(8, 8).astype(numpy.uint16)
    for ending in ("png", "tif"):
        Image.fromarray(deep).save(tmp_path / f"deep.{ending}")
    Image.fromarray(deep.astype(numpy.int32)).save(tmp_path / "integers.tif")
    (tmp_path / "deep.pgm").write_bytes(b"P5\n8 8\n65535\n" + deep.astype(">u2").tobytes())
    Image.fromarray((deep / 65535).astype(numpy.float32)).save(tmp_path / "floats.tif")
    Image.fromarray(65535 - deep).save(tmp_path / "white is zero.tif", tiffinfo={262: 0})
    for file in tmp_path.iterdir():
        assert (read_picture(file, 8)[0].numpy() == numpy.round(deep / 257)).all(), file


def test_bits_that_a_tiff_states_are_the_range_of_its_values(tmp_path):
    levels = numpy.arange(0, 4096, 65).astype(numpy.uint64)[:64]  # 0, 65, … 4095
    packed = b"".join(int(levels[place] << 12 | levels[place + 1]).to_bytes(3, "big") for place in range(0, 64, 2))
    tags = {256: 8, 257: 8, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: 8, 279: len(packed)}
    entries = b"".join(struct.pack("<HHII", tag, 4 if tag in (273, 279) else 3, 1, tags[tag]) for tag in sorted(tags))
    content = struct.pack("<2sHI", b"II", 42, 8 + len(packed)) + packed + struct.pack("<H", len(tags)) + entries
    (tmp_path / "camera.tif").write_bytes(content + bytes(4))
    expected = numpy.round(levels.reshape(8, 8) / 4095 * 255)
    assert (read_picture(tmp_path / "camera.tif", 8)[0].numpy() == expected).all()


def test_deep_pictures_are_scaled_in_parts(tmp_path, monkeypatch):
    deep = numpy.random.default_rng(0).integers(0, 65536, (32, 32)).astype(numpy.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    monkeypatch.setattr(pictures, "AT_ONCE", 100)
    pixels = read_picture(tmp_path / "deep.png", 32)
    assert (pixels.numpy() == numpy.round(deep / 65535 * 255)).all()


@pytest.mark.parametrize("values", [(0, 1.5), (-1, 0.5), (0, float("nan")), (0, 255)])
def test_values_of_no_known_range_are_refused(tmp_path, values):
    Image.fromarray(numpy.resize(numpy.float32(values), (8, 8))).save(tmp_path / "odd.tif")
    with pytest.raises(ValueError, match=r"odd\.tif: has values .*; scale floats to 0 \.\. 1"):
        read_picture(tmp_path / "odd.tif", 8)


def test_the_middle_square_is_taken(tmp_path):
    wide = Image.new("RGB", (90, 30), "blue")
    wide.paste(RED, (30, 0, 60, 30))
    wide.save(tmp_path / "wide.png")
    pixels = read_picture(tmp_path / "wide.png", 30)
    assert (pixels[0] == 255).all() and (pixels[2] == 0).all()


def photo(path, orientation: int, *others: bytes) -> None:
    """A picture that is red above when it is upright, with these tags of EXIF before and after the orientation."""
    picture = Image.new("RGB", (32, 48), "blue")
    picture.paste(RED, (0, 0, 32, 24))
    turned = {1: picture, 6: picture.transpose(Image.Transpose.ROTATE_90), 3: picture.rotate(180)}[orientation]
    tags = list(filter(None, [*others[:1], struct.pack("<HHIHH", 0x112, 3, 1, orientation, 0), *others[1:]]))
    exif = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + b"".join(tags) + bytes(4)
    turned.save(path, exif=exif, quality=95)


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
@pytest.mark.parametrize(
    "broken",
    [
        (),
        (b"", struct.pack("<HHIi", 0x100, 9, 1, -5)),  # a negative width
        (struct.pack("<HHII", 0x10F, 2, 2**31, 2**31), struct.pack("<HHII", 0x8769, 4, 1, 2**32 - 2)),  # lead nowhere
        (struct.pack("<HHII", 0x10E, 99, 3, 5),),  # of no known type
    ],
)
def test_a_camera_held_sideways_gives_an_upright_picture_whatever_else_its_tags_are(
    tmp_path, orientation, ending, broken
):
    photo(tmp_path / f"photo.{ending}", orientation, *broken)
    red, _, blue = read_picture(tmp_path / f"photo.{ending}", 32).int()
    assert (red[:14] > blue[:14] + 100).all() and (blue[18:] > red[18:] + 100).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "tif"])
def test_every_orientation_is_that_of_pillow(tmp_path, orientation, ending):
    noise = numpy.random.default_rng(0).integers(0, 255, (6, 9, 3), dtype=numpy.uint8)
    exif = Image.Exif()
    exif[0x112] = orientation
    Image.fromarray(noise).resize((48, 32)).save(tmp_path / f"photo.{ending}", exif=exif)
    expected = ImageOps.fit(ImageOps.exif_transpose(Image.open(tmp_path / f"photo.{ending}")), (32, 32))
    assert (read_picture(tmp_path / f"photo.{ending}", 32).permute(1, 2, 0).numpy() == numpy.asarray(expected)).all()


def test_broken_files_are_reported_with_the_reason(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "apple.png").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    noise = numpy.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=numpy.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:4000])
    for name, reason in (("empty", "0 bytes"), ("text", "not an image"), ("half", "truncated"), ("apple", "HEIC")):
        with pytest.raises(ValueError, match=rf"{name}\.png: .*{reason}"):
            read_picture(tmp_path / f"{name}.png", 8)


def test_a_large_jpeg_is_decoded_small_and_looks_the_same(tmp_path, monkeypatch):
    noise = numpy.random.default_rng(0).integers(0, 256, (16, 20, 3)).astype(numpy.uint8)
    Image.fromarray(noise).resize((1600, 1280), Image.Resampling.BICUBIC).save(tmp_path / "photo.jpg")
    decoded, fit = [], ImageOps.fit
    monkeypatch.setattr(ImageOps, "fit", lambda picture, *rest: decoded.append(picture.size) or fit(picture, *rest))
    small = read_picture(tmp_path / "photo.jpg", 32).float()
    monkeypatch.setattr(pictures, "DECODED", 1000)
    whole = read_picture(tmp_path / "photo.jpg", 32).float()
    assert decoded == [(200, 160), (1600, 1280)]
    assert (small - whole).abs().max() <= 4
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100_000)  # Pillow opens twice as many, as of 200 megapixels
    assert torch.equal(read_picture(tmp_path / "photo.jpg", 32).float(), whole)
    content = Content(pyarrow.py_buffer((tmp_path / "photo.jpg").read_bytes()), "a row")
    assert torch.equal(read_picture(content, 32).float(), whole)
    monkeypatch.setattr(pictures, "MOST_STATED", 1_000_000)
    with pytest.raises(ValueError, match=r"photo\.jpg: 1600 × 1280 pixels are too many to decode"):
        read_picture(tmp_path / "photo.jpg", 32)


def test_normalize_is_the_textbook_formula():
    images = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8)
    mean, std = (0.1, 0.5, 0.7), (0.2, 0.3, 0.4)
    expected = (images.numpy() / 255 - numpy.reshape(mean, (3, 1, 1))) / numpy.reshape(std, (3, 1, 1))
    assert torch.allclose(normalize(images, mean, std).double(), torch.from_numpy(expected), atol=1e-5)
