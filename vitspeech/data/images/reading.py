"""Reading image files as the tensors that networks take; `pictures.py` reads them as arrays."""

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vitspeech.data.images import pictures
from vitspeech.errors import InputError
from vitspeech.files import check_regular, walk_files

if TYPE_CHECKING:
    from pyarrow import Buffer

ENDINGS = {".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".mpo", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff"}
ENDINGS |= {".webp", ".avif", ".heic", ".heif"}  # the last three cannot be read, but must not be overlooked


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


def decode_picture(content: "Buffer", side: int) -> Tensor:
    """As `read_picture`, of the bytes of a file."""
    return square(BytesIO(content), side, "a picture of the pack")


def square(source: Path | BytesIO, side: int, name: object) -> Tensor:
    """As `pictures.read_square`: uint8 (3, side, side)."""
    try:
        return torch.from_numpy(pictures.read_square(source, side, name)).permute(2, 0, 1).contiguous()
    except pictures.PictureError as error:
        raise InputError(str(error)) from None


def check_picture(path: Path, side: int) -> None:
    """Refuse a file that does not begin as a picture that can be read as `side` pixels; it is not decoded."""
    check_regular(path)
    try:
        with pictures.opened(path, side, path):
            pass
    except pictures.PictureError as error:
        raise InputError(str(error)) from None


def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(pixels / 255 - mean) / std per channel: uint8 (B, C, N, N) -> floats."""
    scale = 1 / (255 * torch.tensor(std, device=images.device))
    shift = torch.tensor(mean, device=images.device) / torch.tensor(std, device=images.device)
    return images * scale[:, None, None] - shift[:, None, None]
