"""The worst false alarms: cuts that one can listen to, with what was said there."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from vitspeech.spotting.counts import Counts
from vitspeech.spotting.listening import ALARM, Candidate, samples_again
from vitspeech.spotting.streams import OTHERS

WORST = 10  # in each condition
MARGIN_S = 0.6  # of audio before and after


@dataclass(frozen=True)
class Alarm:
    """A false alarm.

    Args:
        candidate: The detection.
        condition: Where it was heard.
        place: The recording that it was heard in, and when; of other words the clip.
        said: What the transcript says, or the word that was said; empty if that is not known.
        samples: The cut around it, int16 (N,).
        start_s: Its start in the cut.
        end_s: Its end in the cut.
    """

    candidate: Candidate
    condition: str
    place: str
    said: str
    samples: Tensor
    start_s: float
    end_s: float


def worst_alarms(counts: Counts, rate_hz: int, count: int = WORST) -> Iterator[Alarm]:
    """The false alarms of the highest probability in each condition, also of those below the thresholds."""
    for condition in counts.conditions:
        there = [
            item
            for item in counts.candidates
            if item.status == ALARM and counts.heard[item.stream].stream.condition == condition
        ]
        for candidate in sorted(there, key=lambda item: -item.detection.probability)[:count]:
            yield cut(counts, candidate, rate_hz)


def cut(counts: Counts, candidate: Candidate, rate_hz: int) -> Alarm:
    """The audio around a detection."""
    heard, found = counts.heard[candidate.stream], candidate.detection
    stream, recording = heard.stream, heard.stream.recordings[candidate.recording]
    first_s = max(found.start_s - MARGIN_S, 0.0)
    part = slice(round(first_s * rate_hz), round((found.end_s + MARGIN_S) * rate_hz))
    samples = samples_again(heard, rate_hz)[part].clone()  # a view would keep the stream in memory
    said, place = " ".join(recording.words or ()), f"{recording.name} at {found.start_s - recording.start_s:.1f} s"
    if stream.condition == OTHERS:
        word = stream.words[candidate.word] if candidate.word >= 0 else None
        said, place = (word.label, word.clip) if word else ("", place)
    return Alarm(candidate, stream.condition, place, said, samples, found.start_s - first_s, found.end_s - first_s)
