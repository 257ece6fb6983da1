"""Reading image files: a picture of any size and mode as a square of uint8 RGB pixels."""

import logging
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from pyarrow import Buffer
from torch import Tensor

from vitspeech.errors import InputError
from vitspeech.files import check_regular, walk_files

LOCK = threading.Lock()
inside, silence = 0, warnings.catch_warnings()


@contextmanager
def no_warnings() -> Iterator[None]:
    """Ignore warnings in the body, in all threads.

    `warnings.catch_warnings` alone would restore, in one thread, the filters that another one has set.
    """
    global inside, silence
    with LOCK:
        if inside == 0:
            silence = warnings.catch_warnings()
            silence.__enter__()
            warnings.simplefilter("ignore")
        inside += 1
    try:
        yield
    finally:
        with LOCK:
            inside -= 1
            if inside == 0:
                silence.__exit__(None, None, None)


logging.getLogger("PIL").addHandler(logging.NullHandler())  # it would print what the error of a broken TIFF says
ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # not EPS: Pillow gives it to Ghostscript
PROBLEMS = {
    UnidentifiedImageError: "not a picture that can be read",
    Image.DecompressionBombError: "too many pixels to decode",
    MemoryError: "too large for the memory",  # 16-bit and float values are converted in double precision
}
MOST_PIXELS = 120_000_000  # decoded: up to 2 GB in between
DECODED = 4  # the side of a decoded picture is at least this multiple of the side that it is scaled to


def walk_pictures(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The named files, and all picture files in named folders, one after the other; see `walk_files`."""
    return walk_files(paths, ENDINGS, "picture")


def read_picture(path: str | Path, side: int) -> Tensor:
    """Read a picture and scale its center square to `side` pixels, in RGB, with EXIF rotation applied.

    Transparent pixels are blended with white.

    Shape:
        -> uint8 (3, side, side)
    """
    path = Path(path)
    check_regular(path)
    return square(path, side, path)


def decode_picture(content: Buffer, side: int) -> Tensor:
    """As `read_picture`, of the bytes of a file."""
    return square(BytesIO(content), side, "a picture of the pack")


def check_picture(path: Path, side: int) -> None:
    """Refuse a file that does not begin as a picture that can be read as `side` pixels; it is not decoded."""
    check_regular(path)
    with opened(path, side, path):
        pass


def square(source: Path | BytesIO, side: int, name: object) -> Tensor:
    """The center square of a picture, scaled: uint8 (3, side, side); `name` is for messages."""
    with opened(source, side, name) as picture:
        picture = ImageOps.exif_transpose(picture)
        if picture.mode == "F" and not numpy.isfinite(numpy.asarray(picture)).all():
            raise InputError(f"{name}: has values that are not finite (NaN or infinite)")
        fitted = ImageOps.fit(to_rgb(picture), (side, side), Image.Resampling.BICUBIC)
        return torch.from_numpy(numpy.array(fitted)).permute(2, 0, 1).contiguous()


@contextmanager
def opened(source: Path | BytesIO, side: int, name: object) -> Iterator[Image.Image]:
    """Open a picture to decode it in the body; a JPEG is decoded at a fraction of its size, if enough for `side`."""
    try:
        # Warnings are about large pictures, which are counted below, and about odd metadata.
        with no_warnings(), Image.open(source, formats=FORMATS) as picture:
            # JPEG files are decoded at 1/2, 1/4 or 1/8 of their size, as in `thumbnail`; others ignore this.
            picture.draft(None, (DECODED * side, DECODED * side))
            if picture.width * picture.height > MOST_PIXELS:
                raise InputError(f"{name}: {picture.width} × {picture.height} pixels are too many to decode")
            yield picture
    except InputError:
        raise
    except Exception as error:  # Pillow's decoders raise errors of any class for broken files
        raise InputError(f"{name}: {PROBLEMS.get(type(error), f'broken or truncated picture ({error})')}") from error


def to_rgb(picture: Image.Image) -> Image.Image:
    """Convert any Pillow mode to RGB: 16-bit and float values are scaled to 8 bits, transparency becomes white."""
    if picture.mode.startswith(("I", "F")):
        values = numpy.asarray(picture, dtype=numpy.float64)
        # 16-bit files use their whole range. Floats and 32-bit integers have no standard range, so their own is used.
        low, high = (0, 65535) if picture.mode.startswith("I;16") else (values.min(), values.max())
        gray = (values - low) / max(high - low, 1e-12) * 255
        return Image.fromarray(gray.round().astype(numpy.uint8)).convert("RGB")
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return picture.convert("RGB")
