"""Continuous speech by training speakers, to cut clips of `unknown` from.

Shapes: A samples of speech.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from vitspeech.data.audio.continuous import Speech, list_speech, read_without, speech_split
from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.errors import InputError


def training_speech(folder: Path) -> list[Speech]:
    """The recordings of a folder of speech whose speakers are for training.

    Raises:
        FileNotFoundError, InputError: As `list_speech` does.
        InputError: If no speaker is for training.
    """
    recordings = list_speech(folder)
    if chosen := speech_split(recordings, "train"):
        return chosen
    count = len({item.speaker for item in recordings})
    raise InputError(
        f"{folder}: none of its speakers ({count}) falls into training (half of the speakers do); add speakers, or"
        " name each file by its speaker, SPEAKER_nohash_NUMBER.wav"
    )


def read_speech(
    folder: Path, recordings: Sequence[Speech], words: Sequence[str], *, least: int, most: int | None = None
) -> Tensor:
    """Read the stretches of recordings in which no keyword is said, one after another: int16 (A,).

    Args:
        folder: The folder of speech, for messages.
        recordings: From `training_speech`.
        words: The keywords.
        least: Fewest samples A.
        most: Most samples A; what follows is not read. `None` reads all.

    Raises:
        InputError: If there are fewer than `least`, or a recording cannot be read.
    """
    parts, total = [torch.empty(0, dtype=torch.int16)], 0
    for item in tqdm(recordings, "reading speech", disable=len(recordings) < 100 or None, leave=False):
        if most is not None and total >= most:
            break
        parts.append(read_without(item, words))
        total += len(parts[-1])
    if total < least:
        raise InputError(f"{folder}: less than {least / SAMPLE_RATE_HZ:g} s of training speech without keywords")
    return torch.cat(parts)[:most]
