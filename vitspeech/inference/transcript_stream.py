"""Transcripts of a stream; the last one equals the transcript of the full recording.

Shapes: N samples, T tokens, C classes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
from torch import Tensor

from vitspeech.checkpoint.model import Model
from vitspeech.decoding.final_units import take_final
from vitspeech.decoding.paths import Hypothesis, PathNode, nodes_after, to_hypothesis
from vitspeech.decoding.search import Search, new_ctc_search
from vitspeech.decoding.unit_runs import Segment
from vitspeech.decoding.vocabulary import to_text, to_words, vocabulary_kind, word_ranges
from vitspeech.inference.stream import Listener, parts_of, stream
from vitspeech.inference.transcript import Transcript, is_transcribing, to_segments, to_transcript, wrong_model

HISTORY_S = 300.0  # hypotheses of a beam may differ in; each keeps its units of that time


@dataclass(eq=False, repr=False)
class TranscriptSoFar:
    """The transcript after a push; created by `TranscriptStream.push`.

    `kept` and `changed` say what the push changed: `[*units_before[:kept], *changed]` are the units now. The other
    attributes are those of `Transcript`. They are computed when they are read, in time proportional to the length of
    the transcript. Two are equal if their transcripts are.

    Args:
        kept: Number of units that are the same as after the push before.
        changed: The units after those, with their times.
        log_probability: Natural logarithm, as the search returns it.
        build: Makes the transcript.
    """

    kept: int
    changed: tuple[Segment, ...]
    log_probability: float
    build: Callable[[], Transcript]

    @cached_property
    def transcript(self) -> Transcript:
        """The transcript so far."""
        return self.build()

    @property
    def text(self) -> str:
        """The words so far, separated by spaces."""
        return self.transcript.text

    @property
    def units(self) -> tuple[Segment, ...]:
        """Each unit so far, with its times."""
        return self.transcript.units

    @property
    def words(self) -> tuple[Segment, ...]:
        """Each word so far, with its times."""
        return self.transcript.words

    @property
    def indices(self) -> tuple[int, ...]:
        """The index of each unit among the model's labels."""
        return self.transcript.indices

    def __repr__(self) -> str:
        return f"TranscriptSoFar({self.transcript!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TranscriptSoFar) and self.transcript == other.transcript

    def __hash__(self) -> int:
        return hash(self.transcript)

    def __getstate__(self) -> dict[str, Any]:
        """For copy and pickle: the transcript instead of the linked units and the model that it is built from."""
        return {name: getattr(self, name) for name in ("kept", "changed", "log_probability", "transcript")}


class TranscriptStream(Listener):
    """Takes samples and returns the transcript so far.

    The logits are those of the full recording (`AudioStream`), and the search continues from push to push. After
    `flush` the transcript therefore equals that of `vitspeech.transcribe`, regardless of how the samples were split.
    With a beam above 1 they may differ for recordings above five minutes, in which `transcribe` drops hypotheses.
    Greedy search changes at most the end of the last unit and appends others; beam search may still change earlier
    units.

    The cost of a push depends on its samples and on the number of units that it changes, not on what was transcribed
    before.

    Args:
        model: A `SpeechRecognizer` from `vitspeech.load`, with a limited `right` in every block.
        search: Search parameters; `None` is `Search()`. Memory grows with the length of the transcript, times the beam.

    Raises:
        InputError: If the model can't be streamed; the message states the reason.
    """

    def __init__(self, model: Model, *, search: Search | None = None) -> None:
        if not is_transcribing(model):
            raise wrong_model(model, "can't transcribe a stream")
        self.stream, self.search = stream(model), new_ctc_search(search or Search(), model.labels)
        self.labels, self.tokens, self.latency_samples = model.labels, model.network.tokens, self.stream.latency_samples

    def push(self, samples: Tensor | numpy.ndarray) -> TranscriptSoFar:
        """Process the next samples, int16 or floats within ±1: (N,) -> the transcript so far, and what changed."""
        before = self.search.last
        self.advance(self.stream.push(samples))
        last, log_probability = self.search.last, self.search.log_probability
        changed = self.segments(nodes_after(before, last))

        def build() -> Transcript:  # paths are immutable, so it can be built after later pushes
            return to_transcript(to_hypothesis(last, log_probability), self.labels, self.tokens)

        return TranscriptSoFar((last.count if last else 0) - len(changed), changed, log_probability, build)

    def restart(self) -> None:
        """Begin a new recording, without a transcript of what was pushed before."""
        self.stream.restart()
        self.search.restart()

    def flush(self) -> Transcript:
        """End the recording and return its transcript; the stream can then be used for another recording."""
        self.advance(self.stream.flush())
        result = to_transcript(self.search.best(), self.labels, self.tokens)
        self.search.restart()
        return result

    def transcript(self, parts: Iterable[Tensor]) -> Transcript:
        """The transcript of a recording of any length that arrives in parts (N,).

        Memory does not grow with the recording, apart from the transcript. In one longer than five minutes, hypotheses
        of a beam that differ from the best one more than five minutes back are dropped, which leaves their places in
        the beam to others.
        """
        nodes, log_probability = [], 0.0
        for final, _ in self.final_links(parts):
            nodes += final
            log_probability = self.search.log_probability
        units, spans = tuple(node.unit for node in nodes), tuple((node.first, node.end) for node in nodes)
        return to_transcript(Hypothesis(units, log_probability, spans), self.labels, self.tokens)

    def words(self, parts: Iterable[Tensor]) -> Iterator[Segment]:
        """Yield each unit (word, character or piece) of parts (N,) as soon as it is final; see `live` for words.

        A unit of greedy search is final when the next token does not extend it, one of a beam when all hypotheses of
        the beam share it, which may be as late as after the words that follow. Call `restart` before another recording
        if you stop before the end.
        """
        for final, _ in self.final_links(parts):
            yield from self.segments(final)

    def listen(self, sound: Any = None, *, sample_rate: int | None = None) -> Iterator[Segment]:
        """Yield the words of a sound, each as soon as it is final; see `Listener.listen`."""
        try:
            for words, _ in self.live(parts_of(sound, self.stream.sample_rate_hz, sample_rate)):
                yield from words
        finally:
            self.restart()

    def live(self, parts: Iterable[Tensor]) -> Iterator[tuple[tuple[Segment, ...], str]]:
        """For each of the parts (N,), yield the words that became final and the text after them, which may change.

        A word is final if all hypotheses of the beam have it and, where units are characters or pieces, the next word
        has begun. All words together are those of the recording's transcript. Only what may change is kept, so that
        memory does not grow with the recording.

        Call `restart` before another recording if you stop before the end.
        """
        pending: list[PathNode] = []  # final units of a word that is not over
        for final, is_over in self.final_links(parts):
            pending += final
            ranges = word_ranges([self.labels[node.unit] for node in pending], self.labels)
            if vocabulary_kind(self.labels) != "words" and not is_over:
                ranges = [(begin, end) for begin, end in ranges if end < len(pending)]
            count = ranges[-1][1] if ranges else 0
            words, pending = to_words(self.segments(pending[:count]), self.labels), pending[count:]
            open_units = [] if is_over else [*pending, *nodes_after(None, self.search.last)]
            yield words, to_text([self.labels[node.unit] for node in open_units], self.labels)

    def final_links(self, parts: Iterable[Tensor]) -> Iterator[tuple[list[PathNode], bool]]:
        """For each of the parts, yield the units that no later sample can change; at the end the others, and `True`.

        Hypotheses that differ from the best one further back than HISTORY_S seconds are dropped.
        """
        longest = round(HISTORY_S * self.stream.sample_rate_hz / self.stream.hop_samples)
        for part in parts:
            self.advance(self.stream.push(part))
            yield take_final(self.search, longest=longest), False
        self.advance(self.stream.flush())
        yield nodes_after(None, self.search.last), True
        self.search.restart()

    def segments(self, nodes: Sequence[PathNode]) -> tuple[Segment, ...]:
        """Units with their times."""
        names, spans = [self.labels[node.unit] for node in nodes], [(node.first, node.end) for node in nodes]
        return to_segments(names, spans, self.tokens)

    def advance(self, logits: Tensor) -> None:
        """Continue the search with the next logits (T, C)."""
        if len(logits):
            self.search.push(logits.float().log_softmax(-1).cpu())
