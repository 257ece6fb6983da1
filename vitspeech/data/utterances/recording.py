"""A recording with its transcript."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Recording:
    """One row of a CSV file, or of a pack.

    Args:
        id: Path of the recording as in the CSV file.
        words: The transcript.
        file: The audio file.
        speaker: Who speaks, if a column `speaker` or the file name says so.
        location: The CSV file and line, or the pack, for messages.
    """

    id: str
    words: list[str]
    file: Path
    speaker: str | None
    location: str
