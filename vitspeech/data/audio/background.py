"""The speech and the noise that come with vitspeech, for spotters to learn what to reject."""

from pathlib import Path

from vitspeech.errors import InputError

PACKAGE = Path(__file__).parents[2]


def background_folder() -> Path:
    """The folder with `speech/`, in LibriSpeech's layout, and `noise/`: in an installed wheel, or in the checkout."""
    installed = PACKAGE / "checkpoints/background"
    folder = installed if installed.is_dir() else PACKAGE.parent / "checkpoints/background"
    if not folder.is_dir():
        raise InputError(f"{folder}: the speech and noise that come with vitspeech are missing; set background: false")
    return folder
