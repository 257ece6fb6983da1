"""The tables from which anybody can compute the curve again: candidates, words and recordings."""

from collections.abc import Iterator
from pathlib import Path

from vitspeech.data.audio.continuous import occurrences
from vitspeech.files import write_csv
from vitspeech.spotting.counts import Counts
from vitspeech.spotting.listening import Heard, noise_name
from vitspeech.spotting.streams import SPEECH

DETECTIONS, WORDS, RECORDINGS = "detections.csv", "words.csv", "recordings.csv"
STREAM = ("condition", "noise", "stream")  # the columns that name a stream
DETECTION_COLUMNS = (
    *STREAM,
    "recording",
    "speaker",
    "label",
    "probability",
    "start_s",
    "end_s",
    "decided_s",
    "status",
    "word",
)
WORD_COLUMNS = (*STREAM, "word", "label", "speaker", "clip", "start_s", "end_s")
RECORDING_COLUMNS = (*STREAM, "recording", "speaker", "start_s", "end_s", "contains")


def write_tables(counts: Counts, folder: Path) -> None:
    """Write `detections.csv`, `words.csv` and `recordings.csv`, which docs/spotting.md describes."""
    write_csv(folder / DETECTIONS, DETECTION_COLUMNS, detection_rows(counts))
    write_csv(folder / WORDS, WORD_COLUMNS, word_rows(counts))
    write_csv(folder / RECORDINGS, RECORDING_COLUMNS, recording_rows(counts))


def stream_cells(item: Heard) -> tuple[str, str, str]:
    """The cells that name a stream."""
    return item.stream.condition, noise_name(item.stream.snr_db), item.stream.name


def detection_rows(counts: Counts) -> Iterator[tuple]:
    """One row per candidate, detected or not."""
    for candidate in counts.candidates:
        item, found = counts.heard[candidate.stream], candidate.detection
        recording = item.stream.recordings[candidate.recording]
        times = (round(time, 6) for time in (found.start_s, found.end_s, found.decided_s))
        word = "" if candidate.word < 0 else candidate.word
        yield (
            *stream_cells(item),
            recording.name,
            recording.speaker,
            found.label,
            found.probability,
            *times,
            candidate.status,
            word,
        )


def word_rows(counts: Counts) -> Iterator[tuple]:
    """One row per word of the composed streams, numbered within its stream."""
    for item in counts.heard:
        for number, word in enumerate(item.stream.words):
            yield *stream_cells(item), number, word.label, word.speaker, word.clip, word.start_s, word.end_s


def recording_rows(counts: Counts) -> Iterator[tuple]:
    """One row per recording, with the model's words that its transcript has, joined by `|`."""
    for item in counts.heard:
        for part in item.stream.recordings:
            is_speech = item.stream.condition == SPEECH
            said = "|".join(word for word in counts.words if is_speech and occurrences(part.words, word))
            yield *stream_cells(item), part.name, part.speaker, part.start_s, part.end_s, said
