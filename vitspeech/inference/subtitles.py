"""Subtitles of a transcript, as SubRip (.srt) or WebVTT (.vtt)."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

from vitspeech.decoding.unit_runs import Segment
from vitspeech.errors import InputError
from vitspeech.inference.transcript import Transcript

LINE, LINES = 42, 2  # letters of a line and lines of a cue, as is usual for television
PAUSE_S = 0.8  # between words: a cue ends here
LONGEST_S, SHORTEST_S = 7.0, 1.0  # a cue is shown

wrapped = partial(textwrap.wrap, width=LINE, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True)
class Cue:
    """The lines of a text, and the seconds in which it is shown."""

    start_s: float
    end_s: float
    lines: tuple[str, ...]


def to_subtitles(transcript: Transcript, form: str) -> str:
    """The content of a subtitle file, in the form `srt` or `vtt`.

    Raises:
        InputError: If the times of the words are unknown.
    """
    if transcript.text and not transcript.words:
        raise InputError("subtitles need the times of words, which this model does not give: it has no CTC head")
    is_srt, blocks = form == "srt", [] if form == "srt" else ["WEBVTT\n"]
    for number, cue in enumerate(to_cues(transcript.words), start=1):
        times = " --> ".join(timestamp(seconds, "," if is_srt else ".") for seconds in (cue.start_s, cue.end_s))
        text = "\n".join(cue.lines)
        blocks.append(f"{number}\n{times}\n{text}\n" if is_srt else f"{times}\n{escape(text, False)}\n")
    return "\n".join(blocks)


def to_cues(words: Iterable[Segment]) -> list[Cue]:
    """Distribute words over cues.

    A cue has at most two lines of 42 letters and lasts seven seconds at most, unless one word is longer: words are not
    split. A cue ends where nobody speaks for PAUSE_S, and is shown for a second at least if the next one does not begin
    before.
    """
    groups, cues = list(grouped(words)), []
    for number, group in enumerate(groups, start=1):
        start_s, end_s = group[0].start_s, group[-1].end_s
        next_s = groups[number][0].start_s if number < len(groups) else float("inf")
        end_s = max(end_s, min(start_s + SHORTEST_S, next_s))
        cues.append(Cue(start_s, end_s, tuple(wrapped(" ".join(word.label for word in group)))))
    return cues


def grouped(words: Iterable[Segment]) -> Iterator[Sequence[Segment]]:
    """The words of each cue."""
    group: list[Segment] = []
    for word in words:
        if group:
            is_after_pause = word.start_s - group[-1].end_s >= PAUSE_S
            is_long = word.end_s - group[0].start_s > LONGEST_S
            if is_after_pause or is_long or len(wrapped(" ".join(one.label for one in [*group, word]))) > LINES:
                yield group
                group = []
        group.append(word)
    if group:
        yield group


def timestamp(seconds: float, mark: str) -> str:
    """Hours, minutes, seconds and milliseconds, with `mark` before the milliseconds: 00:01:02,345; at least 0."""
    milliseconds = max(round(1000 * seconds), 0)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
