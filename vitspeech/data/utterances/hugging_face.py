"""Utterances of Hugging Face data sets: recordings with transcripts."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Literal

from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import Notes, check_audio, read_clip
from vitspeech.data.batches import Batches, SpeechBatch, collate
from vitspeech.data.hub import imported
from vitspeech.data.hugging_face import FILE_COLUMN, IN_MEMORY_BYTES, SPEAKER_COLUMNS, HuggingFaceData, Rows
from vitspeech.data.module import MEMORY, STREAM, TEST
from vitspeech.data.rows import Each, readable_files
from vitspeech.data.utterances.recorded import RecordedData, RecordedUtterances, Recording
from vitspeech.data.utterances.transcribed_audio import words_in
from vitspeech.errors import InputError

SECONDS = "seconds"  # a column with the durations, which `vitspeech pack` writes: the recordings need not be opened


class Described(Sequence):
    """What is known of the utterances of a split besides their sounds, made when it is asked for."""

    def __init__(self, rows: Rows, names: Any, transcripts: str, speakers: str | None, words_of: Callable) -> None:
        self.rows, self.words_of, self.names = rows, words_of, names
        self.transcripts, self.speakers = rows.column(transcripts), rows.column(speakers) if speakers else None

    def __len__(self) -> int:
        return len(self.transcripts)

    def __getitem__(self, index: int) -> Recording:
        name, text = self.names[index].as_py(), self.transcripts[index].as_py()
        location = f"{self.rows.name}: row {index if self.rows.places is None else self.rows.places[index]}"
        if not (words := self.words_of(text or "")):
            raise InputError(f"{location}: the transcript {text!r} has no letters")
        speaker = self.speakers and self.speakers[index].as_py()
        return Recording(name or str(index), words, None, None if speaker is None else str(speaker), location)


class HuggingFaceUtterances(HuggingFaceData, RecordedData):
    """Recordings with transcripts, from the Hugging Face Hub, Parquet, a folder, or what `vitspeech pack` wrote.

    They are 0.1 to 60 s long, have any sample rate, and are read from their bytes, without FFmpeg.

    Args:
        path: A name on the hub, or a folder or file; see `HuggingFaceData`.
        transcript_column: The column of transcripts; `None` is the only one of texts besides that of speakers.
        text: `as_written` takes transcripts as they are, `plain` in lower case without punctuation; see
            `TranscribedAudio`.
        **options: Those of `HuggingFaceData` and of `RecordedData`.
    """

    feature = "Audio"

    def __init__(
        self,
        path: str,
        *,
        transcript_column: str | None = None,
        text: Literal["as_written", "plain"] = "as_written",
        **options: Any,
    ) -> None:
        super().__init__(path, **options)
        self.given_transcripts, self.text = transcript_column, text

    @cached_property
    def transcript_column(self) -> str:
        """The column of transcripts."""
        value = imported().Value
        names = [name for name, feature in self.features.items() if feature in (value("string"), value("large_string"))]
        found = [name for name in names if name not in (*SPEAKER_COLUMNS, self.speaker_column, FILE_COLUMN)]
        return self.one_column("transcript_column", self.given_transcripts, "texts", found)

    def described(self, rows: Rows) -> Described:
        """What is known of the utterances in the rows of a split."""
        return Described(rows, self.names_of(rows), self.transcript_column, self.speaker_column, self.words_of)

    @property
    def listed(self) -> dict[str, Sequence[Recording]]:
        streams = {"train"} if self.storage == STREAM else set()
        return {split: [] if split in streams else self.described(rows) for split, rows in self.rows.items()}

    def list_splits(self) -> dict[str, Described]:
        splits = self.listed
        self.check_transcripts(splits)
        return splits

    def words_of(self, text: str) -> list[str]:
        return words_in(text, self.text)

    def training_transcripts(self) -> Iterator[list[str]]:
        if self.storage != STREAM:
            return (recording.words for recording in self.listed["train"])
        rows = self.found["train"].dataset.with_format(None).select_columns([self.transcript_column])
        return (self.words_of(row[self.transcript_column] or "") for row in rows)

    def transcripts(self, split: str) -> list[list[str]]:
        return list(self.training_transcripts()) if split == "train" else super().transcripts(split)

    def read(self, split: str) -> Dataset:
        if self.storage == STREAM and split == "train":
            return self.streamed(select=self.transcribed, decode=self.read_transcribed, batch_of=collated)
        recordings, rows, notes = self.splits[split], self.rows[split], Notes()
        places, seconds = list(range(len(rows))), ()
        in_memory = self.storage == MEMORY and rows.dataset.data.nbytes <= IN_MEMORY_BYTES
        sounds = Each(rows.files(self.column), read_clip)
        if in_memory:
            read = partial(read_clip, notes=notes)
            places, sounds = readable_files(sounds.items, read, split, self.broken, verb="reading")
            notes.warn()
        elif SECONDS in self.features:
            seconds = rows.column(SECONDS).to_numpy().copy()
        else:
            places, seconds = readable_files(sounds.items, check_audio, split, self.broken)
        if len(places) < len(rows):
            self.rows[split] = rows = rows.chosen(places)
            recordings = self.splits[split] = self.described(rows)
        if not in_memory:
            self.workers, sounds = self.reading_workers, Each(rows.files(self.column), read_clip)
        units = Each(recordings, partial(units_of, encode=self.encode_known))
        return RecordedUtterances(recordings, units, sounds, seconds, replace=split != TEST)

    def transcribed(self, row: dict[str, Any]) -> tuple[Any, str]:
        """The file and the transcript in a row of a stream."""
        return self.content(row), row[self.transcript_column]

    def read_transcribed(self, item: tuple[Any, str]) -> tuple[Tensor, list[int]]:
        """The samples of a row of a stream, and its units."""
        if not (words := self.words_of(item[1] or "")):
            raise InputError(f"{item[0]}: the transcript {item[1]!r} has no letters")
        return read_clip(item[0]), self.encode(words)

    def training_batches(self, ranks: int | None = None) -> Batches:
        if self.storage == STREAM and self.batch_s is not None:
            raise InputError("batch_s: the durations in a stream are not known; set batch")
        return super().training_batches(ranks)


def collated(items: Sequence[tuple[Tensor, list[int]]], seed: int) -> tuple[SpeechBatch, int]:
    """A batch of utterances."""
    return collate(*map(list, zip(*items, strict=True))), seed


def units_of(recording: Recording, encode: Callable[[Sequence[str]], list[int]]) -> list[int]:
    """The indices of the units of a transcript."""
    return encode(recording.words)
