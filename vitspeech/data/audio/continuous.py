"""Folders of continuous speech with or without transcripts, such as LibriSpeech, and their splits by speaker."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from torch import Tensor

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, read_audio, walk_audio
from vitspeech.data.splits import percentage, relative_name, speaker_in_name, split_at
from vitspeech.errors import InputError
from vitspeech.files import read_text

TRANSCRIPTS = ".trans.txt"  # each line has the name of a recording in the same folder and what is said in it
SPLITS = {"validation": (0, 20), "test": (20, 50)}  # per cent of the speakers; the others are for training
MARGIN_S = 2.0  # around a word whose time is only estimated
LETTER = r"[^\W_]"
LIBRISPEECH_NAME = re.compile(r"\d+-\d+-\d+")
MOST_BYTES = 2**26  # of a file of transcripts


@dataclass(frozen=True)
class Speech:
    """A recording of continuous speech, and what is said in lower case; `None` if there is no transcript.

    The speaker is in LibriSpeech's layout the first part of the file's name, in Speech Commands' the part before
    `_nohash_`, otherwise the file's folder, or the file itself if it is directly in the root.
    """

    file: Path
    speaker: str
    words: tuple[str, ...] | None


def list_speech(root: str | Path) -> list[Speech]:
    """List the recordings below a folder, at any depth, in the order of their paths. Links to folders are followed.

    Files named `*.trans.txt` hold the transcripts of the recordings beside them, as in LibriSpeech (Panayotov et al.
    2015): a line has the recording's name without its ending, and the words.
    """
    root = Path(root)
    if root.is_file():
        raise FileNotFoundError(f"{root}: no such folder of speech")
    files = list(walk_audio([root]))
    words = {}
    for folder in {file.parent for file in files}:
        for listing in sorted(folder.glob(f"[!.]*{TRANSCRIPTS}")):
            words |= {folder / name: tuple(said) for name, (_, said) in read_transcripts(listing).items()}
    said = [words.get(file.with_suffix("")) for file in files]
    return [
        Speech(file, speaker_of(file, root, text is not None), text) for file, text in zip(files, said, strict=True)
    ]


def speech_split(recordings: Sequence[Speech], split: str) -> list[Speech]:
    """The recordings of a split, by a hash of the speaker: 20 % for validation, 30 % for the test; or `all`.

    A speaker stays in its split when others are added. A set of few speakers may have none in a split.
    """
    return [item for item in recordings if split in ("all", split_of_speaker(item.speaker))]


def split_of_speaker(speaker: str) -> str:
    """The split of a speaker."""
    return split_at(percentage(speaker), list(SPLITS), SPLITS)


def occurrences(words: Sequence[str] | None, label: str) -> list[tuple[float, float]]:
    """Where a transcript has a label: as a whole word, or as a part between hyphens or apostrophes.

    "one's" has "one"; "someone" does not. A label of several words must occur as such. Without a transcript it is taken
    not to be said.

    Returns:
        The begin and the end of each occurrence, as shares of the transcript's letters.
    """
    text = " ".join(words or ()).lower()
    parts = re.findall(f"{LETTER}+", label.lower())
    phrase = r"[\W_]+".join(parts)
    pattern = f"(?<!{LETTER}){phrase}(?!{LETTER})"
    return [(found.start() / len(text), found.end() / len(text)) for found in re.finditer(pattern, text) if parts]


def read_without(recording: Speech, words: Sequence[str]) -> Tensor:
    """Read the stretches of a recording in which none of the words is said, one after another: int16 (A,).

    A transcript has no times. A word is expected where its letters are in the transcript, and `MARGIN_S` on either side
    is left out with it. Stretches of less than a second are left out, too.
    """
    audio = read_audio(recording.file)
    margin, kept = round(MARGIN_S * SAMPLE_RATE_HZ), numpy.ones(len(audio), bool)
    for begin, end in (place for word in words for place in occurrences(recording.words, word)):
        kept[max(int(begin * len(audio)) - margin, 0) : int(end * len(audio)) + margin] = False
    edges = numpy.flatnonzero(numpy.diff(kept, prepend=False, append=False)).reshape(-1, 2)
    return torch.cat([audio[:0], *(audio[first:last] for first, last in edges if last - first >= SAMPLE_RATE_HZ)])


def read_transcripts(file: Path) -> dict[str, tuple[str, list[str]]]:
    """Of each recording that a file of transcripts names, the line, for messages, and the words in lower case."""
    found = {}
    for number, line in enumerate(read_text(file, most_bytes=MOST_BYTES).splitlines(), 1):
        name, *text = line.split(maxsplit=1) or [""]
        location = f"{file}: line {number}"
        if name and (not text or name in found):
            raise InputError(f"{location}: {name} has no words, or is listed twice")
        if name:
            found[name] = location, lower_words(text[0])
    return found


def lower_words(text: str) -> list[str]:
    """The words of a transcript in lower case, with composed letters (Unicode NFC)."""
    return unicodedata.normalize("NFC", text.lower()).split()


def speaker_of(file: Path, root: Path, is_librispeech: bool) -> str:
    """The speaker of a recording; see `Speech`."""
    # SPEAKER-CHAPTER-NUMBER; a date has this form, too, but is not in the folder of its chapter.
    is_numbered = LIBRISPEECH_NAME.fullmatch(file.stem) and file.stem.split("-")[1] == file.absolute().parent.name
    if is_numbered or (is_librispeech and file.stem.count("-") == 2):
        return file.stem.partition("-")[0]
    if speaker := speaker_in_name(file.name):
        return speaker
    return relative_name(file if file.parent == root else file.parent, root)
