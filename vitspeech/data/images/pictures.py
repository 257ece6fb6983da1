"""Reading an image of any size, mode and format as a square of 8-bit RGB: NumPy and Pillow are all it needs.

vitspeech reads images with it, and exported folders have a copy beside `run.py`.

Black to white is 0 .. 255 in 8 bits, 0 .. 65535 in more bits (also in integers of 32 bits), and 0 .. 1 in floats, in
every format; in a TIFF of 12 bits it is 0 .. 4095. An image with values far beyond is refused: how bright it is meant
to be cannot be known.
"""

import logging
import math
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path

import numpy
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

logging.getLogger("PIL").addHandler(logging.NullHandler())  # it would print what the error of a broken TIFF says
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # not EPS: Pillow gives it to Ghostscript
MOST_PIXELS = 120_000_000  # decoded: up to 2 GB in between
MOST_STATED = 2**28  # of a JPEG, which is decoded at a fraction of its size: phones have cameras of 200 megapixels
DECODED = 4  # the side of a decoded image is at least this multiple of the side that it is scaled to
BEYOND = 0.1  # of the range of values: what resampling may add; it is cut off
ORIENTATION, LONG = 0x0112, 4  # a tag of EXIF, and a type of 32 bits
BITS, PHOTOMETRIC = 0x0102, 0x0106  # tags of TIFF
AT_ONCE = 2**20  # values of more than 8 bits that are scaled at once, in floats of 64 bits
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureError(ValueError):
    """A file is not an image that can be read; the message names it."""


def read_square(source: Path | BytesIO, side: int, name: object) -> numpy.ndarray:
    """The center square of an image, scaled and turned upright: uint8 RGB (side, side, 3); messages have the `name`.

    Transparent pixels are blended with white. Of an animation it is the first frame.
    """
    with opened(source, side, name) as picture:
        picture.load()
        try:
            return to_square(picture, side)
        except PictureError as error:
            raise PictureError(f"{name}: {error}") from None


def to_square(picture: Image.Image, side: int) -> numpy.ndarray:
    """As `read_square`, of an image that is open."""
    picture = ImageOps.fit(upright(to_8_bits(picture), picture), (side, side), Image.Resampling.BICUBIC)
    return numpy.array(picture.convert("RGB"))


@contextmanager
def opened(source: Path | BytesIO, side: int, name: object) -> Iterator[Image.Image]:
    """Open an image to decode it in the body; a JPEG is decoded at a fraction of its size, if enough for `side`."""
    # Pillow warns of large images, which are counted below, and of odd metadata, which are not used.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        with open_any(source) as picture:
            width, height = picture.size
            # JPEG files are decoded at 1/2, 1/4 or 1/8 of their size, as in `thumbnail`; others ignore this.
            picture.draft(None, (DECODED * side, DECODED * side))
            if width * height > MOST_STATED or picture.width * picture.height > MOST_PIXELS:
                raise PictureError(f"{name}: {width} × {height} pixels are too many to decode; scale it down")
            yield picture
    except PictureError:
        raise
    except Exception as error:  # Pillow's decoders raise errors of any class for broken files
        if isinstance(error, OSError) and error.errno is not None:  # of the disk
            raise
        raise PictureError(f"{name}: {problem(error, source)}") from error


def open_any(source: Path | BytesIO) -> Image.Image:
    """Open an image of the known formats, and a JPEG of more pixels than Pillow opens."""
    try:
        return Image.open(source, formats=FORMATS)
    except Image.DecompressionBombError:
        if isinstance(source, BytesIO):
            source.seek(0)
        with suppress(SyntaxError):  # it is no JPEG
            return JpegImageFile(source)
        raise


def problem(error: Exception, source: Path | BytesIO) -> str:
    """What an error of Pillow says of an image, in words."""
    if isinstance(error, UnidentifiedImageError):
        with source.open("rb") if isinstance(source, Path) else source as file:
            file.seek(4)
            if file.read(4) == b"ftyp":
                return "a HEIC, AVIF or video file, whatever its name says; convert it to JPEG"
        return "not an image that can be read (BMP, GIF, JPEG, PNG, PPM, TIFF or WebP)"
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels to decode; scale it down"
    if isinstance(error, MemoryError):
        return "too large for the memory"
    return f"broken or truncated image ({error}); copy it again"


def upright(pixels: Image.Image, picture: Image.Image) -> Image.Image:
    """The pixels of an image, turned as its EXIF says, of which nothing else is read: cameras and editors break it."""
    try:
        orientation = find_orientation(picture.info.get("exif", b"")) or picture.getexif().get(ORIENTATION)
    except Exception:  # Pillow raises errors of any class for broken tags
        return pixels
    return pixels.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else pixels


def find_orientation(exif: bytes) -> int | None:
    """The orientation in the first folder of tags of EXIF, each of 12 bytes: number, type, count, value."""
    tags = exif.removeprefix(b"Exif\0\0")
    order = "<" if tags[:2] == b"II" else ">"
    with suppress(struct.error):
        (start,) = struct.unpack_from(f"{order}I", tags, 4)
        (count,) = struct.unpack_from(f"{order}H", tags, start)
        for place in range(start + 2, start + 2 + 12 * count, 12):
            number, kind = struct.unpack_from(f"{order}HH", tags, place)
            if number == ORIENTATION:
                return struct.unpack_from(f"{order}{'I' if kind == LONG else 'H'}", tags, place + 8)[0]
    return None


def to_8_bits(picture: Image.Image) -> Image.Image:
    """Convert any Pillow mode to RGB or, of 16-bit and float values, to 8-bit gray; transparency becomes white."""
    if picture.mode[0] in "IF":
        return Image.fromarray(gray_levels(picture))
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return picture.convert("RGB")


def gray_levels(picture: Image.Image) -> numpy.ndarray:
    """The values of an image of 16 bits or floats, scaled to 8 bits: uint8 (height, width)."""
    values, tags = numpy.asarray(picture), getattr(picture, "tag_v2", {})
    most, low, high = 1 if picture.mode == "F" else 65535, float(values.min()), float(values.max())
    if picture.mode.startswith("I;16") and BITS in tags:  # cameras write 12 bits into a TIFF, 0 .. 4095
        most = 2 ** tags[BITS][0] - 1
    if not -BEYOND * most <= low <= high <= (1 + BEYOND) * most:  # also if one is NaN
        kind = "floats" if picture.mode == "F" else "integers of more than 8 bits"
        has = "values that are no numbers" if math.isnan(low) else f"values from {low:g} to {high:g}"
        raise PictureError(f"has {has}; scale {kind} to 0 .. {most}")
    levels = numpy.empty(values.size, numpy.uint8)
    for start in range(0, values.size, AT_ONCE):
        some = values.reshape(-1)[start : start + AT_ONCE].astype(numpy.float64)
        if tags.get(PHOTOMETRIC) == 0:  # of a TIFF in which 0 is white
            some = most - some
        levels[start : start + AT_ONCE] = (some / most * 255).clip(0, 255).round()
    return levels.reshape(values.shape)
