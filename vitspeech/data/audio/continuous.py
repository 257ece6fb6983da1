"""Folders of continuous speech with or without transcripts, such as LibriSpeech, and their splits by speaker."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vitspeech.data.audio.reading import ENDINGS
from vitspeech.data.splits import percentage, relative_name, speaker_in_name
from vitspeech.documents import read_text
from vitspeech.errors import InputError

TRANSCRIPTS = ".trans.txt"  # each line has the name of a recording in the same folder and what is said in it
SPLITS = {"validation": (0, 20), "test": (20, 50)}  # per cent of the speakers; the others are for training
MOST_BYTES = 2**26  # of a file of transcripts


@dataclass(frozen=True)
class Speech:
    """A recording of continuous speech.

    Args:
        file: The audio file.
        speaker: Who speaks: in LibriSpeech's layout the first part of the file's name, in Speech Commands' the part
            before `_nohash_`, otherwise the file's folder, or the file itself if it is directly in the root.
        words: What is said, in lower case; `None` if there is no transcript.
    """

    file: Path
    speaker: str
    words: tuple[str, ...] | None


def list_speech(root: str | Path) -> list[Speech]:
    """List the recordings below a folder, at any depth, in the order of their paths.

    Files named `*.trans.txt` hold the transcripts of the recordings beside them, as in LibriSpeech (Panayotov et al.
    2015): a line has the recording's name without its ending, and the words.

    Raises:
        FileNotFoundError: If there is no such folder.
        InputError: If the folder has no recordings, or a line of transcripts has no words.
    """
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder of speech")
    files = sorted(file for file in root.rglob("[!.]*") if file.suffix.lower() in ENDINGS and file.is_file())
    if not files:
        raise InputError(f"{root}: no recordings ({', '.join(sorted(ENDINGS))})")
    transcripts = {folder: read_transcripts(folder) for folder in {file.parent for file in files}}
    recordings = []
    for file in files:
        words = transcripts[file.parent].get(file.stem)
        recordings.append(Speech(file, speaker_of(file, root, words is not None), words))
    return recordings


def speech_split(recordings: Sequence[Speech], split: str) -> list[Speech]:
    """The recordings of a split: 20 % of the speakers for validation, 30 % for the test, by a hash of the speaker.

    A speaker stays in its split when others are added. A set of few speakers may have none in a split.

    Args:
        recordings: From `list_speech`.
        split: `train`, `validation`, `test`, or `all`.
    """
    return [item for item in recordings if split in ("all", split_of_speaker(item.speaker))]


def split_of_speaker(speaker: str) -> str:
    """The split of a speaker."""
    value = percentage(speaker)
    return next((split for split, (low, high) in SPLITS.items() if low <= value < high), "train")


def without(recordings: Sequence[Speech], words: Sequence[str]) -> list[Speech]:
    """The recordings whose transcript has none of the words; those without a transcript are kept."""
    spoken = {word.lower() for word in words}
    return [item for item in recordings if not spoken & set(item.words or ())]


def read_transcripts(folder: Path) -> dict[str, tuple[str, ...]]:
    """The words of each recording that the folder's transcripts name."""
    words = {}
    for file in sorted(folder.glob(f"*{TRANSCRIPTS}")):
        for number, line in enumerate(read_text(file, most_bytes=MOST_BYTES).splitlines(), 1):
            name, _, text = line.strip().partition(" ")
            if name and not text.strip():
                raise InputError(f"{file}: line {number}: {name} has no words")
            if name:
                words[name] = tuple(text.lower().split())
    return words


def speaker_of(file: Path, root: Path, is_librispeech: bool) -> str:
    """The speaker of a recording; see `Speech`."""
    if is_librispeech and file.stem.count("-") == 2:  # SPEAKER-CHAPTER-NUMBER
        return file.stem.partition("-")[0]
    if speaker := speaker_in_name(file.name):
        return speaker
    return relative_name(file if file.parent == root else file.parent, root)
