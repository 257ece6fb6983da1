"""Your own recordings with transcripts, listed in CSV files.

Shapes: N samples, A samples of background noise.
"""

import unicodedata
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from vitspeech.data.labeled_files import hold_out, read_rows, split_sources
from vitspeech.data.splits import speaker_in_name
from vitspeech.data.utterances.recorded import RecordedData, Recording
from vitspeech.errors import InputError

COLUMNS = ("path", "transcript")


class TranscribedAudio(RecordedData):
    """Recordings with transcripts, listed in ROOT/train.csv, ROOT/validation.csv (or `val.csv`) and ROOT/test.csv.

    Each CSV file is UTF-8, with a header that names the columns `path` (absolute or relative to ROOT) and `transcript`,
    and may name `speaker`. Recordings are WAV, FLAC, OGG or MP3 of any rate, mono or stereo, 0.1 to 60 s long.
    Transcripts are split into words at white space and used as they are, with capitals and punctuation, or as plain
    text (`text`); letters with accents are composed (Unicode NFC).

    If a split has no CSV file, a tenth of the training recordings is held out for it. A hash of the recording's path
    decides (`stratified_splits`), so that nearly all recordings keep their split when others are added, and splits do
    not depend on the seed. If a column `speaker` or the file name (SPEAKER_nohash_NUMBER) says of each who speaks, a
    hash of the speaker decides (`hashed_splits`), so that these splits share no speakers. If all speakers of
    the test set are known, the interval of the word error rate resamples them.

    Pink noise is added to most training utterances (`noise_prob` and `snr_db` of `augment`). The times of the words are
    unknown, so frames cannot be labeled (`vitspeech.Labeling`).

    Args:
        root: The folder described above.
        units: What is recognized: `words`, including those of rows of train.csv that are held out, `characters` (with a
            space between words), or `pieces` of words. Characters and pieces are those of the other rows.
        text: `as_written` takes transcripts as they are. `plain` converts them to lower case without punctuation; see
            `plain_text`.
        **options: The others of `RecordedData`.
    """

    def __init__(
        self,
        root: str,
        *,
        units: Literal["words", "characters", "pieces"] = "words",
        text: Literal["as_written", "plain"] = "as_written",
        **options: Any,
    ) -> None:
        super().__init__(units=units, **options)
        self.root, self.text = Path(root), text
        self.item_root = self.root
        if not (self.root / "train.csv").is_file():
            raise FileNotFoundError(f"{self.root / 'train.csv'}: no such file; it lists recordings with transcripts")
        self.sources = split_sources(self.root, ".csv")

    @property
    def listed(self) -> dict[str, list[Recording]]:
        """The rows of the CSV files; some of training are held out for a split without one."""
        others = {split: source for split, source in self.sources.items() if split != "train"}
        return self.divided | {split: list(list_recordings(source, self.words_of)) for split, source in others.items()}

    @cached_property
    def divided(self) -> dict[str, list[Recording]]:
        """The rows of train.csv: those of training, and those held out for each split without a CSV file."""
        rows = list(list_recordings(self.sources["train"], self.words_of))
        splits = hold_out({split: [] for split in self.sources} | {"train": rows}, self.root)
        return {split: items for split, items in splits.items() if split == "train" or split not in self.sources}

    def words_of(self, text: str) -> list[str]:
        return words_in(text, self.text)

    def training_transcripts(self) -> Iterator[list[str]]:
        """The words of each row of train.csv; without those of held-out rows unless words are recognized."""
        words = self.units == "words"
        rows = list_recordings(self.sources["train"], self.words_of) if words else self.divided["train"]
        return (recording.words for recording in rows)


def list_recordings(listing: Path, words_of: Callable[[str], list[str]]) -> Iterator[Recording]:
    """Yield the rows of a CSV file; `words_of` gives the words of a transcript."""
    for location, (path, transcript, speaker) in read_rows(listing, COLUMNS, ("speaker",)):
        if not (words := words_of(transcript)):
            raise InputError(f"{location}: the transcript {transcript!r} has no letters")
        yield Recording(path, words, listing.parent / path, speaker or speaker_in_name(path), location)


def words_in(transcript: str, text: Literal["as_written", "plain"]) -> list[str]:
    """The words of a transcript as it is, or as plain text."""
    return (plain_text(transcript) if text == "plain" else unicodedata.normalize("NFC", transcript)).split()


def plain_text(transcript: str) -> str:
    """A transcript in lower case, with spaces in place of punctuation other than apostrophes within words.

    Letters with accents are composed (Unicode NFC), typographic apostrophes become straight ones, and invisible
    characters such as soft hyphens and zero-width joiners are left out.
    """
    text = unicodedata.normalize("NFC", transcript).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = text.replace("i\N{COMBINING DOT ABOVE}", "i")  # of İ, in lower case
    visible = (letter for letter in text if unicodedata.category(letter) != "Cf")
    kept = (letter if letter == "'" or unicodedata.category(letter)[0] in "LMN" else " " for letter in visible)
    return " ".join(filter(None, (word.strip("'") for word in "".join(kept).split())))
