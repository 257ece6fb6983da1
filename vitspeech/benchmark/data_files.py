"""Files of pictures and clips that a benchmark reads. Pictures are smooth with some noise, as photographs are."""

from pathlib import Path

import numpy
import soundfile
from PIL import Image

CLASSES = 10


def write_pictures(folder: Path, count: int, size: tuple[int, int]) -> None:
    """Write JPEG files into folders of classes.

    Args:
        folder: Its folders are the classes.
        count: Number of files.
        size: Width and height in pixels.
    """
    random = numpy.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3)).astype(numpy.uint8)).resize(size, Image.BICUBIC)
        pixels = numpy.asarray(coarse, numpy.int16) + random.integers(-12, 13, (size[1], size[0], 1))
        picture = Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))
        picture.save(place(folder, number, "jpg"), quality=90)


def write_clips(folder: Path, count: int) -> None:
    """Write WAV files of a second, 16 kHz, into folders of classes."""
    random = numpy.random.default_rng(0)
    for number in range(count):
        samples = 6000 * random.standard_normal(16_000)
        soundfile.write(place(folder, number, "wav"), samples.clip(-32768, 32767).astype(numpy.int16), 16_000)


def place(folder: Path, number: int, ending: str) -> Path:
    """The path of a file, in a folder that is made if it is missing."""
    path = folder / f"class{number % CLASSES}" / f"{number:06}.{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
