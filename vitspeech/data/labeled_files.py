"""Files with labels or transcripts, as folders or CSV files list them, and which of them are held out."""

import csv
import io
import re
import unicodedata
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from vitspeech.data.splits import hashed_splits, relative_name, speaker_in_name, stratified_splits
from vitspeech.decoding.vocabulary import vocabulary_kind
from vitspeech.errors import InputError, some_names
from vitspeech.files import read_text

SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "val"), "test": ("test",)}
LIKE_SPLITS = {"train", "training", "validation", "valid", "val", "dev", "test", "testing"}  # in any letters
MOST_BYTES = 2**30  # of a CSV file


@dataclass(frozen=True, slots=True)
class LabeledFile:
    """A recording or image; its location is the folder, or the CSV file and line, for messages."""

    file: Path
    label: str
    speaker: str | None
    location: str


def split_sources(root: Path, ending: str = "") -> dict[str, Path]:
    """The folder of each split that has one, or the file with this ending; without one for training, the root.

    Others that are named as if they were a split are named in a warning.
    """
    if not (root / f"train{ending}").exists():
        return {"train": root}
    candidates = [(split, root / f"{name}{ending}") for split, names in SPLIT_NAMES.items() for name in reversed(names)]
    sources = {split: source for split, source in candidates if source.exists()}
    alike = [path for path in sorted(root.glob(f"*{ending}")) if path.name.removesuffix(ending).lower() in LIKE_SPLITS]
    if ignored := [path.name for path in alike if not any(map(path.samefile, sources.values()))]:
        warnings.warn(f"{root}: {some_names(ignored)} not used; splits are train, validation and test", stacklevel=2)
    return sources


def class_folders(folder: Path, hidden: str = ".") -> list[Path]:
    """The folders in a folder, sorted by name, without those whose names begin with one of `hidden`."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    folders = sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] not in hidden)
    if not folders:
        raise FileNotFoundError(f"{folder}: no class folders; put the files of each class or word into its own folder")
    return folders


def files_in_folders(folder: Path, endings: Collection[str], hidden: str = ".") -> Iterator[LabeledFile]:
    """Yield the files with one of the endings in each class folder."""
    for class_folder in class_folders(folder, hidden):
        files = files_of(class_folder, endings)
        if not files:
            raise InputError(f"{class_folder}: no files of this class ({', '.join(sorted(endings))})")
        for file in files:
            yield LabeledFile(file, class_folder.name, speaker_in_name(file.name), str(class_folder))


def files_of(folder: Path, endings: Collection[str]) -> list[Path]:
    """The files with one of the endings directly in a folder, sorted by name; none if the folder does not exist."""
    # On foreign disks and in archives, macOS adds a file ._NAME.wav, not a recording, to each NAME.wav.
    return sorted(file for file in folder.glob("[!.]*") if file.suffix.lower() in endings and not file.is_dir())


def read_rows(
    listing: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[str, list[str | None]]]:
    """Yield (location, cells) for each row of a CSV file: "FILE: line NUMBER" for messages, and its cells in `columns`.

    Cells of `optional` columns follow; they are `None` if the file has no such column.
    """
    header, rows = [], 0
    for number, line in enumerate(io.StringIO(read_text(listing, most_bytes=MOST_BYTES), newline=None), 1):
        location = f"{listing}: line {number}"
        if not line.strip():
            continue
        try:
            # Parsed line by line, so that an unclosed quote does not swallow the lines below it.
            fields = [field.strip() for field in next(csv.reader([line], skipinitialspace=True, strict=True))]
        except csv.Error as error:
            raise InputError(f"{location}: {error} (a quote that is not closed?)") from None
        if not header:
            header = fields
            if missing := [column for column in columns if column not in header]:
                commas = ", separated by commas" if len(header) == 1 and re.search(r"[;\t]", header[0]) else ""
                names = " and ".join(columns)
                raise InputError(f"{location}: no column {missing[0]!r}; the header must name {names}{commas}")
            continue
        if len(fields) != len(header):
            raise InputError(
                f"{location}: {len(fields)} fields, but {len(header)} in the header; quote fields that contain a comma"
            )
        row = dict(zip(header, fields, strict=True))
        if empty := [column for column in (*columns, *optional) if row.get(column) == ""]:
            raise InputError(f"{location}: empty {empty[0]}")
        rows += 1
        yield location, [row.get(column) for column in (*columns, *optional)]
    if not rows:
        raise InputError(f"{listing}: no rows below the header")


def check_files(splits: Mapping[str, Sequence[Any]]) -> None:
    """Refuse files that do not exist or are listed twice, also by another path; items have `file` and `location`."""
    first_locations: dict[Path, str] = {}
    for item in chain.from_iterable(splits.values()):
        if not item.file.is_file():
            raise FileNotFoundError(f"{item.location}: {item.file} does not exist")
        if (file := item.file.resolve()) in first_locations:
            raise InputError(f"{item.location}: {item.file} is listed twice, first in {first_locations[file]}")
        first_locations[file] = item.location


def labeled_splits(
    sources: Mapping[str, Path], listed: Callable[[Path], Iterable[LabeledFile]]
) -> dict[str, list[LabeledFile]]:
    """The files of each split, as its folder or CSV file lists them; for one without a source some are held out.

    Refuses labels that training does not have, and what `check_files` refuses.
    """
    splits = {split: list(listed(source)) for split, source in sources.items()}
    labels = {item.label for item in splits["train"]}
    for item in chain.from_iterable(splits.values()):
        if item.label not in labels:
            known = ", ".join(sorted(labels))
            raise InputError(f"{item.location}: training does not have the label {item.label!r}; known: {known}")
    check_files(splits)
    train = sources["train"]
    return hold_out(splits, train.parent if train.is_file() else train)


def check_training(splits: Mapping[str, Sequence[LabeledFile]], labels: Collection[str], root: Path) -> None:
    """Warn of labels of which a split has no file, and refuse splits in which nothing is left to learn one from."""
    warn_of_few(splits, labels)
    if missing := set(labels) - {item.label for item in splits["train"]}:
        raise InputError(f"{root}: all files of {', '.join(sorted(missing))} are held out; add more")


def hold_out(splits: dict[str, list], root: Path) -> dict[str, list]:
    """Hold out training files for validation and test where these are missing.

    Files have `file`, `speaker` and perhaps `label`. Speakers are held out as a whole (`hashed_splits`); if one is not
    known, or there are too few, files are held out label by label, by their paths in `root` (`stratified_splits`).
    """
    missing = [split for split in SPLIT_NAMES if split not in splits]
    if not missing:
        return splits
    items = splits["train"]
    names = [relative_name(item.file, root) for item in items]
    speakers = [item.speaker for item in items if item.speaker]
    if by_speaker := len(speakers) == len(items) and len(set(speakers)) > len(missing):
        chosen = hashed_splits(speakers, missing, root)
    else:
        chosen = stratified_splits(names, [getattr(item, "label", "") for item in items], missing, root)
    if speakers and not by_speaker:
        unknown = len(items) - len(speakers)
        why = f"{unknown:,} of {len(items):,} files state no speaker" if unknown else "too few speakers"
        warnings.warn(
            f"{root}: {why}, so single files are held out for {' and '.join(missing)}: "
            "accuracies are those of known speakers",
            stacklevel=2,
        )
    held_out = {split: [] for split in ("train", *missing)}
    for item, split in zip(items, chosen, strict=True):
        held_out[split].append(item)
    return splits | held_out


def warn_of_few(splits: Mapping[str, Sequence[LabeledFile]], labels: Collection[str]) -> None:
    """Warn once about labels of which a split has no file, as where there are too few: it says nothing about them."""
    missing = []
    for split, items in splits.items():
        found = {item.label for item in items}
        if none := [label for label in labels if label not in found]:
            missing.append(f"{split} has none of {some_names(none)}")
    if missing:
        warnings.warn(f"too few for each split: {'; '.join(missing)}; add more, at least one for each", stacklevel=3)


def warn_of_alike(labels: Sequence[str]) -> None:
    """Warn once about labels that are invisible, and words that differ only in capital letters or what is invisible."""
    groups = defaultdict(list)
    for label in labels:
        visible = "".join(letter for letter in label if unicodedata.category(letter) != "Cf")
        groups[unicodedata.normalize("NFKC", visible).casefold().strip() if visible else ""].append(label)
    alike = [repr(label) for label in groups.pop("", ()) if not label.isspace()]
    if vocabulary_kind(labels) == "words":  # `A` and `a` may well be two characters
        alike += [
            " and ".join(map(repr, group)) for group in groups.values() if len(max(group, key=len)) > 1 < len(group)
        ]
    if alike:
        text = "labels that differ only in capital letters or in what is invisible are learned apart"
        warnings.warn(f"{text}: {some_names(alike)}; if they mean the same, give them the same name", stacklevel=3)


def known_speakers(items: Sequence[Any]) -> list[str] | None:
    """The speaker of each item; `None` if one is unknown."""
    speakers = [item.speaker for item in items]
    return None if None in speakers else speakers
