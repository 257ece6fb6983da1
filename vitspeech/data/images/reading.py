"""Images from files and from memory as the tensors that networks take; `pictures.py` reads files as arrays."""

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy
import torch
from PIL import Image
from torch import Tensor

from vitspeech.data.images import pictures
from vitspeech.data.rows import Content
from vitspeech.errors import InputError
from vitspeech.files import check_regular, walk_files

ENDINGS = {".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".mpo", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff"}
ENDINGS |= {".webp", ".avif", ".heic", ".heif"}  # the last three cannot be read, but must not be overlooked

CHANNELS = (1, 3, 4)  # gray, RGB, RGBA


def walk_pictures(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The named files, and all image files in named folders, one after the other; see `walk_files`."""
    return walk_files(paths, ENDINGS, "image")


def read_picture(path: str | Path | Content, side: int) -> Tensor:
    """Read an image and scale its center square to `side` pixels, in RGB, with EXIF rotation applied.

    Transparent pixels are blended with white.

    Shape:
        -> uint8 (3, side, side)
    """
    try:
        square = pictures.read_square(source_of(path), side, path)
    except pictures.PictureError as error:
        raise InputError(str(error)) from None
    return torch.from_numpy(square).permute(2, 0, 1).contiguous()


def to_picture(pixels: Any, side: int) -> Tensor:
    """An image in memory as `read_picture` makes it of a file.

    Args:
        pixels: A PIL image, or an array or tensor of uint8 or of floats within 0..1: gray (H, W), or with 1, 3 (RGB) or
            4 (RGBA) channels, (H, W, C) or (C, H, W). Where both are possible, the last axis of an array has the
            channels, and the first one of a tensor.
        side: Side of the result in pixels.

    Shape:
        -> uint8 (3, side, side)
    """
    picture = pixels if isinstance(pixels, Image.Image) else Image.fromarray(to_levels(pixels))
    try:
        return torch.from_numpy(pictures.to_square(picture, side)).permute(2, 0, 1).contiguous()
    except pictures.PictureError as error:
        raise InputError(f"an image {error}") from None


def to_levels(pixels: Any) -> numpy.ndarray:
    """The pixels of an array or tensor, see `to_picture`: uint8 (H, W) or (H, W, 3 or 4)."""
    if is_tensor := isinstance(pixels, Tensor):
        pixels = (pixels.float() if pixels.is_floating_point() else pixels).detach().cpu().numpy()
    array = pixels
    if isinstance(array, numpy.ndarray) and array.ndim == 3:
        axes = [axis for axis in ((0, 2) if is_tensor else (2, 0)) if array.shape[axis] in CHANNELS]
        array = numpy.moveaxis(array, axes[0], 2) if axes else None
        array = array[..., 0] if axes and array.shape[2] == 1 else array
    if not isinstance(array, numpy.ndarray) or array.ndim not in (2, 3) or not array.size:
        what = f"of shape {tuple(pixels.shape)}" if isinstance(pixels, numpy.ndarray) else type(pixels).__name__
        raise InputError(f"{what}: not an image; give a path, a PIL image, or pixels (H, W, 3) or (3, H, W)")
    if array.dtype == numpy.uint8:
        return array
    low, high = float(array.min()), float(array.max())
    if array.dtype.kind != "f" or not -pictures.BEYOND <= low <= high <= 1 + pictures.BEYOND:
        kind = f"pixels of type {array.dtype} from {low:g} to {high:g}"
        raise InputError(f"{kind} are neither uint8 nor floats within 0..1; normalized ones are for the network itself")
    return (array * 255).round().clip(0, 255).astype(numpy.uint8)


def check_picture(path: Path | Content, side: int) -> None:
    """Refuse a file that does not begin as an image that can be read as `side` pixels; it is not decoded."""
    try:
        with pictures.opened(source_of(path), side, path):
            pass
    except pictures.PictureError as error:
        raise InputError(str(error)) from None


def source_of(path: str | Path | Content) -> Path | BytesIO:
    """What Pillow opens: a regular file, or bytes."""
    if isinstance(path, Content):
        return path.open()
    check_regular(Path(path))
    return Path(path)


def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(pixels / 255 - mean) / std per channel: uint8 (B, C, N, N) -> floats."""
    scale = 1 / (255 * torch.tensor(std, device=images.device))
    shift = torch.tensor(mean, device=images.device) / torch.tensor(std, device=images.device)
    return images * scale[:, None, None] - shift[:, None, None]
