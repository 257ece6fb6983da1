"""A sample recording and two sample images, to try released models on; LICENSES.md states their origin."""

import shutil
from pathlib import Path

FOLDER = Path(__file__).parent
FILES = ("left-right-go.wav", "cat.jpg", "horse.jpg", "LICENSES.md")


def copy_samples(folder: str | Path) -> list[Path]:
    """Copy the samples into a folder, which is created if it does not exist.

    Returns:
        The copies, in the order of `FILES`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copyfile(FOLDER / name, folder / name)) for name in FILES]
