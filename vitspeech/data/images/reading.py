"""Reading image files: a picture of any size and mode as a square of uint8 RGB pixels."""

from collections.abc import Iterable
from pathlib import Path

import numpy
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from vitspeech.data.files import find_files
from vitspeech.errors import InputError

ENDINGS = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
DECODED = 4  # the side of a decoded picture is at least this multiple of the side that it is scaled to


def find_pictures(paths: Iterable[str | Path]) -> list[Path]:
    """List pictures: named files, and all picture files in named folders; see `find_files`."""
    return find_files(paths, ENDINGS, "picture")


def read_picture(path: str | Path, side: int) -> Tensor:
    """Read a picture and scale its center square to `side` pixels, in RGB, with EXIF rotation applied.

    Transparent pixels are blended with white.

    Shape:
        -> uint8 (3, side, side)

    Raises:
        InputError: If the file is empty, truncated or not a picture; the message names it.
    """
    path = Path(path)
    if path.stat().st_size == 0:
        raise InputError(f"{path}: empty (0 bytes)")
    try:
        with Image.open(path) as picture:
            # JPEG files are decoded at 1/2, 1/4 or 1/8 of their size, as in Pillow's `thumbnail`; others ignore this.
            picture.draft(None, (DECODED * side, DECODED * side))
            square = ImageOps.fit(to_rgb(ImageOps.exif_transpose(picture)), (side, side), Image.Resampling.BICUBIC)
    except UnidentifiedImageError:
        raise InputError(f"{path}: not a picture that can be read") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: broken or truncated picture ({error})") from None
    return torch.from_numpy(numpy.array(square)).permute(2, 0, 1).contiguous()


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
