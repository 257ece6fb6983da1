"""Files with labels or transcripts, as folders or CSV files list them, and which of them are held out."""

import csv
import io
import re
import unicodedata
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from vitspeech.data.splits import hashed_splits, relative_name, speaker_in_name, stratified_splits
from vitspeech.decoding.vocabulary import vocabulary_kind
from vitspeech.errors import InputError, some_names
from vitspeech.files import read_text

SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "val"), "test": ("test",)}
MOST_BYTES = 2**30  # of a CSV file


@dataclass(frozen=True, slots=True)
class LabeledFile:
    """A recording or picture; its location is the folder, or the CSV file and line, for messages."""

    file: Path
    label: str
    speaker: str | None
    location: str


def split_sources(root: Path, ending: str = "") -> dict[str, Path]:
    """The folder of each split that has one, or the file with this ending; without one for training, the root."""
    if not (root / f"train{ending}").exists():
        return {"train": root}
    candidates = [(split, root / f"{name}{ending}") for split, names in SPLIT_NAMES.items() for name in reversed(names)]
    return {split: source for split, source in candidates if source.exists()}


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
    return sorted(file for file in folder.glob("[!.]*") if file.suffix.lower() in endings)


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


def check_labels(splits: Mapping[str, Sequence[LabeledFile]]) -> None:
    """Refuse labels that training does not have."""
    labels = {item.label for item in splits["train"]}
    for item in chain.from_iterable(splits.values()):
        if item.label not in labels:
            known = ", ".join(sorted(labels))
            raise InputError(f"{item.location}: training does not have the label {item.label!r}; known: {known}")


def hold_out(splits: dict[str, list], root: Path) -> dict[str, list]:
    """Hold out training files for validation and test where these are missing.

    Files have `file`, `speaker` and perhaps `label`. Speakers are held out as a whole (`hashed_splits`); if none is
    known, or there are too few, files are held out label by label, by their paths in `root` (`stratified_splits`).
    """
    missing = [split for split in SPLIT_NAMES if split not in splits]
    if not missing:
        return splits
    items = splits["train"]
    names = [relative_name(item.file, root) for item in items]
    keys = [item.speaker or name for item, name in zip(items, names, strict=True)]
    if len(set(keys)) <= len(missing) < len(names):
        keys = names
        warnings.warn(
            f"{root}: too few speakers to hold out some for {' and '.join(missing)}: recordings are held out instead, "
            "so accuracies are those of known speakers",
            stacklevel=2,
        )
    labels = [getattr(item, "label", "") for item in items]
    by_name = keys == names
    chosen = stratified_splits(names, labels, missing, root) if by_name else hashed_splits(keys, missing, root)
    held_out = {split: [] for split in ("train", *missing)}
    for item, split in zip(items, chosen, strict=True):
        held_out[split].append(item)
    return splits | held_out


def warn_of_few(splits: Mapping[str, Sequence[LabeledFile]], labels: Collection[str]) -> None:
    """Warn once about labels of fewer files than there are splits: accuracies say little about them."""
    counts = Counter(item.label for item in chain.from_iterable(splits.values()))
    if few := [label for label in labels if counts[label] < len(splits)]:
        names = ", ".join(splits)
        warnings.warn(
            f"too few for each of {names}: {some_names(few)}; add more, at least {len(splits)} of each", stacklevel=3
        )


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
