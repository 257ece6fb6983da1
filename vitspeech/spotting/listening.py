"""What a model hears in streams: the logits of every token, and the candidates that its decoder makes of them.

A candidate is a detection before thresholds and the refractory period. Candidates do not depend on either, so that
one pass gives misses and false alarms at every threshold.

Shapes: N samples, T tokens, C classes.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from tqdm import tqdm

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.continuous import occurrences
from vitspeech.data.audio.reading import Notes
from vitspeech.decoding.keywords import NO_WORDS, Detection, SpottingSettings
from vitspeech.inference.spotting import WordSpotter
from vitspeech.spotting.streams import KEYWORDS, SPEECH, MakeStreams, Recording, SaidWord, Stream

TOLERANCE_S = 0.25  # a detection may be this far from its word; pauses are twice as long
NEIGHBOR_S = 0.5  # speech: an utterance so near counts as well if it has the word
DIGITS = 9  # of a probability; so a table has the very numbers that were counted
ALARM, DISCOUNTED, MATCH, EXTRA = "alarm", "discounted", "match", "extra"


@dataclass(frozen=True)
class Heard:
    """A stream without its samples and how long it lasts, the model's logits (T, C), and what can make it again."""

    stream: Stream
    seconds: float
    logits: Tensor
    make: MakeStreams


@dataclass(frozen=True)
class Candidate:
    """A candidate of the decoder, classified by the ground truth of its stream.

    Args:
        stream: Number of its stream.
        recording: Number of the recording in the stream that has the detection's middle.
        status: `alarm`; `discounted`: the transcript has the word; `match`: it lies on that word; `extra`: beside
            keywords, or on another one.
        word: Number of the stream's word that it lies on; -1 if there is none.
    """

    detection: Detection
    stream: int
    recording: int
    status: str
    word: int


class Listener:
    """Runs a speech model that spots words over streams.

    Attributes:
        words: The labels that can be detected.
        settings: The model's own settings of the decoder.
        seconds: Audio heard so far.
        computing_s: Time that the network took for it, without reading.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.spotter = model, WordSpotter(model)
        self.settings = self.spotter.settings
        self.words = [label for label in model.labels if label not in NO_WORDS]
        self.sample_rate_hz = self.spotter.stream.sample_rate_hz
        self.seconds = self.computing_s = 0.0

    def hear(self, makers: Sequence[MakeStreams], progress: str) -> list[Heard]:
        """Run the model over streams, with a progress bar named `progress`, and warn of odd recordings at the end."""
        audio, heard, notes = self.spotter.stream, [], Notes()
        for make in tqdm(makers, progress, disable=None, leave=False):
            for stream in make(self.sample_rate_hz, notes):
                start = time.perf_counter()
                audio.restart()
                logits = torch.cat((audio.push(stream.samples), audio.flush()))
                self.computing_s += time.perf_counter() - start
                seconds = len(stream.samples) / self.sample_rate_hz
                self.seconds += seconds
                heard.append(Heard(replace(stream, samples=stream.samples[:0].clone()), seconds, logits, make))
        notes.warn()
        return heard

    def candidates(self, heard: Iterable[Heard], settings: SpottingSettings) -> list[Candidate]:
        """The candidates of all streams, in the order of the decoder; thresholds and refractory period don't matter."""
        decoder = WordSpotter(self.model, replace(settings, thresholds=0.0, refractory_s=0.0)).decoder
        found = []
        for number, item in enumerate(tqdm(heard, "decoding", disable=None, leave=False)):
            for detection in [*decoder.push(item.logits.cpu()), *decoder.flush()]:
                probability, decided_s = round(detection.probability, DIGITS), min(detection.decided_s, item.seconds)
                detection = replace(detection, probability=probability, decided_s=decided_s)
                found.append(judged(detection, number, item.stream))
        return found


def judged(detection: Detection, number: int, stream: Stream) -> Candidate:
    """A detection, classified by the ground truth of its stream; `number` is that of the stream."""
    middle = (detection.start_s + detection.end_s) / 2
    ends = [recording.end_s for recording in stream.recordings]
    recording = next((place for place, end in enumerate(ends) if middle < end), len(ends) - 1)
    overlaps = [overlap_s(detection, word) for word in stream.words]
    word = max(range(len(overlaps)), key=overlaps.__getitem__, default=-1)
    word = word if word >= 0 and overlaps[word] > 0 else -1
    if stream.condition == KEYWORDS:
        same = [
            overlap if stream.words[place].label == detection.label else 0.0 for place, overlap in enumerate(overlaps)
        ]
        if max(same, default=0.0) > 0:
            return Candidate(detection, number, recording, MATCH, same.index(max(same)))
        return Candidate(detection, number, recording, EXTRA, word)
    is_said = stream.condition == SPEECH and any(
        occurrences(stream.recordings[place].words, detection.label)
        for place in neighbors(detection, stream.recordings)
    )
    return Candidate(detection, number, recording, DISCOUNTED if is_said else ALARM, word)


def neighbors(detection: Detection, recordings: Sequence[Recording]) -> list[int]:
    """The recordings that a detection overlaps, or is within `NEIGHBOR_S` of, by their numbers."""
    return [
        place
        for place, near in enumerate(recordings)
        if near.start_s - NEIGHBOR_S < detection.end_s and detection.start_s < near.end_s + NEIGHBOR_S
    ]


def overlap_s(detection: Detection, word: SaidWord) -> float:
    """How long a detection overlaps a word that is `TOLERANCE_S` longer on either side; negative if it does not."""
    return min(detection.end_s, word.end_s + TOLERANCE_S) - max(detection.start_s, word.start_s - TOLERANCE_S)


def noise_name(snr_db: float | None) -> str:
    """A noise level in words: `clean`, `20 dB`."""
    return "" if snr_db is None else "clean" if snr_db == math.inf else f"{snr_db:g} dB"


def samples_again(heard: Heard, rate_hz: int) -> Tensor:
    """The samples of a stream that was heard: int16 (N,)."""
    key = (heard.stream.name, heard.stream.snr_db)
    return next(stream.samples for stream in heard.make(rate_hz, Notes()) if (stream.name, stream.snr_db) == key)
