"""Pictures to try on the page: the samples, and where the data set is at hand some of its test pictures."""

import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from vitspeech.data.images.cifar import LABELS, Cifar
from vitspeech.errors import InputError


def write_test_pictures(folder: Path, labels: Sequence[Sequence[str]], data: str | Path | None) -> list[str]:
    """Write the first CIFAR-10 test picture of each label, if a model has these labels and the data set is there.

    Args:
        folder: An existing folder.
        labels: Those of each model.
        data: The folder of the data set, which must be there; `None` looks in VITSPEECH_DATA.

    Returns:
        The names of the files, such as `ship-7.png` for test picture 7.

    Raises:
        InputError: If `data` is given and no model has the labels of CIFAR-10.
        FileNotFoundError: If `data` is given and the data set is not there.
    """
    names, root = LABELS[10], data or os.environ.get("VITSPEECH_DATA")
    if not any(list(each) == names for each in labels):
        if data is not None:
            raise InputError(f"--data {data}: no model has the labels of CIFAR-10, whose test pictures it would show")
        return []
    if root is None:
        return []
    try:
        test = Cifar(root=str(root)).official_split("test")
    except FileNotFoundError:
        if data is not None:
            raise
        return []
    files = []
    for label, name in enumerate(names):
        number = test.targets.index(label)
        files.append(f"{name}-{number}.png")
        Image.fromarray(test.data[number]).save(folder / files[-1])
    return files
