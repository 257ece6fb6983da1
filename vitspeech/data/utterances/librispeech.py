"""LibriSpeech: read books in the corpus's folders, or your own recordings in the same layout."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from vitspeech.data.audio.continuous import TRANSCRIPTS, lower_words, read_transcripts
from vitspeech.data.audio.reading import ENDINGS, check_audio
from vitspeech.data.downloads import check_complete, download_folder
from vitspeech.data.labeled_files import files_of, hold_out
from vitspeech.data.module import default_root
from vitspeech.data.rows import UNREADABLE
from vitspeech.data.splits import digest
from vitspeech.data.utterances.recorded import RecordedData, RecordedUtterances, Recording
from vitspeech.errors import InputError, check_number
from vitspeech.torch_audio import LIBRISPEECH

FOLDER = "LibriSpeech"
OFFICIAL = (
    "train-clean-100 train-clean-360 train-other-500 dev-clean dev-other test-clean test-other".split()  # 960 hours
)
ADDRESS = "https://www.openslr.org/resources/12"
OTHERS = dict.fromkeys(["train-clean-5", "dev-clean-2"], "https://www.openslr.org/31")  # mini_librispeech


class LibriSpeech(RecordedData):
    """LibriSpeech (Panayotov et al. 2015, doi:10.1109/ICASSP.2015.7178964): 960 hours of books, read by volunteers.

    The layout is ROOT/LibriSpeech/SUBSET/SPEAKER/CHAPTER/SPEAKER-CHAPTER-NUMBER.flac. A file SPEAKER-CHAPTER.trans.txt
    in each folder has a line `SPEAKER-CHAPTER-NUMBER TRANSCRIPT` for each recording. Subsets are any folders with this
    layout, not only the official ones, and recordings may be WAV, FLAC, OGG or MP3.

    The corpus has its transcripts in upper case, without punctuation but with the apostrophe. They are converted to
    lower case, and so are the transcripts of a trained model.

    A split without a subset of its own has the speakers that are named for it. Without these either, about a tenth of
    the speakers of training is held out for it, by a hash (`hashed_splits`).

    Args:
        root: The folder that contains LibriSpeech/; `None` is the environment variable VITSPEECH_DATA, else `data`.
        train: Subsets of training.
        validation: Subsets of validation, such as `dev-clean`.
        test: Subsets of the test, such as `test-clean`.
        validation_speakers: Speakers of the training subsets that are held out for validation.
        test_speakers: Speakers of the training subsets that are held out for the test.
        hours: Train on about this many hours: utterances of all speakers, chosen by a hash; `None` is all.
        download: Download the official subsets that are missing.
        **options: Those of `RecordedData`.
    """

    def __init__(
        self,
        root: str | None = None,
        *,
        train: Sequence[str] = ("train-clean-100",),
        validation: Sequence[str] = (),
        test: Sequence[str] = (),
        validation_speakers: Sequence[int] = (),
        test_speakers: Sequence[int] = (),
        hours: float | None = None,
        download: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.subsets = {"train": list(train), "validation": list(validation), "test": list(test)}
        self.speakers = {
            "validation": [str(speaker) for speaker in validation_speakers],
            "test": [str(speaker) for speaker in test_speakers],
        }
        for split, speakers in self.speakers.items():
            if speakers and self.subsets[split]:
                raise InputError(f"{split} and {split}_speakers are both given; a split has one source")
        if hours is not None:
            check_number("hours", hours, 0, 1e6)
        self.hours, self.download = hours, download
        self.data_root = Path(default_root(root))
        self.root = self.item_root = self.data_root / FOLDER

    def prepare_data(self) -> None:
        """Download subsets if asked to, and check that all exist; every process of a run calls this."""
        for split, subsets in self.subsets.items():
            for subset in subsets if self.download else ():
                if subset in OFFICIAL:
                    options = {"url": subset, "download": True}
                    fetch, address = partial(LIBRISPEECH, self.data_root, **options), f"{ADDRESS}/{subset}.tar.gz"
                    download_folder(self.root / subset, fetch, address)
            self.check_split(split)

    def check_split(self, split: str) -> None:
        """Check that all subsets of a split exist; without one of its own, those of training."""
        for subset in self.subsets[split] or self.subsets["train"]:
            check_complete(self.root / subset)
            if not (self.root / subset).is_dir():
                known = ", ".join(sorted(path.name for path in self.root.glob("*/"))) or "none"
                official = "download the official subsets with `vitspeech train ... --data.download true`"
                raise FileNotFoundError(
                    f"{self.root / subset}: this subset of LibriSpeech is missing (found: {known}); pass the folder "
                    f"that contains {FOLDER}/ by VITSPEECH_DATA or --data.root (evaluate: --data), or "
                    + (f"download it from {OTHERS[subset]}" if subset in OTHERS else official)
                )

    @cached_property
    def listed(self) -> dict[str, list[Recording]]:
        """The recordings of each split, except for splits whose own subset is missing."""
        splits = {
            split: [item for subset in subsets for item in list_subset(self.root / subset)]
            for split, subsets in self.subsets.items()
            if all((self.root / subset).is_dir() for subset in subsets) and (subsets or split == "train")
        }
        if "train" in splits:
            splits |= self.held_out(splits["train"])
        if empty := [split for split, recordings in splits.items() if not recordings]:
            raise InputError(f"{empty[0]}: no speaker is left in {self.root}")
        return splits

    def held_out(self, recordings: list[Recording]) -> dict[str, list[Recording]]:
        """Divide the recordings of the training subsets: those of training, and of the splits without a subset."""
        splits, found = {}, {item.speaker for item in recordings}
        for split, speakers in self.speakers.items():
            if missing := set(speakers) - found:
                raise InputError(f"{split}_speakers: {', '.join(sorted(missing))} not in {self.subsets['train']}")
            if speakers or self.subsets[split]:
                splits[split] = [item for item in recordings if item.speaker in speakers]
        held_out = {speaker for speakers in self.speakers.values() for speaker in speakers}
        splits["train"] = [item for item in recordings if item.speaker not in held_out]
        splits = hold_out(splits, self.root)
        if self.hours is not None:
            splits["train"] = some_hours(splits["train"], self.hours)
        return {split: items for split, items in splits.items() if split == "train" or not self.subsets[split]}

    def words_of(self, text: str) -> list[str]:
        return lower_words(text)

    def read(self, split: str) -> RecordedUtterances:
        self.check_split(split)
        return super().read(split)

    def training_transcripts(self) -> Iterator[list[str]]:
        self.check_split("train")
        return (recording.words for recording in self.listed["train"])


def list_subset(folder: Path) -> Iterator[Recording]:
    """Yield the recordings of a subset, in the order of their paths."""
    chapters = sorted(chapter for chapter in folder.glob("*/*/") if not chapter.name.startswith("."))
    for chapter in chapters:
        files, speaker = {file.stem: file for file in files_of(chapter, ENDINGS)}, chapter.parent.name
        listing = chapter / f"{speaker}-{chapter.name}{TRANSCRIPTS}"
        transcripts = read_transcripts(listing) if files or listing.is_file() else {}
        for name in sorted(files.keys() ^ transcripts.keys()):
            raise InputError(f"{listing}: the recording or the transcript of {name} is missing")
        for name, file in files.items():
            location, words = transcripts[name]
            yield Recording(name, words, file, speaker, location)


def some_hours(recordings: Sequence[Recording], hours: float) -> list[Recording]:
    """About so many hours of the recordings, in their order; which ones is decided by a hash of their names."""
    chosen, seconds = set(), 0.0
    for item in sorted(recordings, key=lambda item: digest(item.id)):
        if seconds >= 3600 * hours:
            break
        chosen.add(item.id)
        with suppress(*UNREADABLE):  # reading the split leaves it out or refuses it, as `broken` says
            seconds += check_audio(item.file)
    else:
        if seconds < 3600 * hours:
            raise InputError(f"hours={hours:g}: training has {seconds / 3600:.2f} hours")
    return [item for item in recordings if item.id in chosen]
