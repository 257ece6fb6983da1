"""Transcripts of a stream; the last one equals the transcript of the full recording.

Shapes: N samples, T tokens, C classes.
"""

from collections.abc import Iterable, Iterator

import numpy
from torch import Tensor

from vitspeech.checkpoint.folder import Model
from vitspeech.decoding.ctc import GreedySearch, Hypothesis
from vitspeech.inference.stream import stream
from vitspeech.inference.transcribe import (
    Search,
    Segment,
    Transcript,
    is_autoregressive,
    is_transcribing,
    new_ctc_search,
    to_transcript,
)


class TranscriptStream:
    """Takes samples and returns the transcript so far.

    The logits are those of the full recording (`AudioStream`), and the search continues from push to push. After
    `flush` the transcript therefore equals that of `vitspeech.transcribe`, regardless of how the samples were split.
    Greedy search only appends to the transcript; beam search may still change its last words.

    Args:
        model: A `SpeechRecognizer` from `vitspeech.load`, with a limited `right` in every block.
        search: Search parameters; `None` is `Search()`. Memory grows with the length of the transcript, times the beam.

    Raises:
        ValueError: If the model can't be streamed; the message states the reason.
    """

    def __init__(self, model: Model, *, search: Search | None = None) -> None:
        if not is_transcribing(model) or is_autoregressive(model.network):
            raise ValueError(
                f"{type(model.network).__name__} can't transcribe a stream; use a SpeechRecognizer (trained with CTC)"
            )
        self.labels, self.tokens = model.labels, model.network.tokens
        self.stream, self.search = stream(model), new_ctc_search(search or Search())

    def push(self, samples: Tensor | numpy.ndarray) -> Transcript:
        """Process the next samples, int16 or floats within ±1: (N,) -> the transcript so far."""
        self.advance(self.stream.push(samples))
        return to_transcript(self.search.best(), self.labels, self.tokens)

    def flush(self) -> Transcript:
        """End the recording and return its transcript; the stream can then be used for another recording."""
        self.advance(self.stream.flush())
        result = to_transcript(self.search.best(), self.labels, self.tokens)
        self.search.restart()
        return result

    def words(self, parts: Iterable[Tensor]) -> Iterator[Segment]:
        """Yield each word (or character, if characters are the units) of parts (N,) as soon as it is final.

        Raises:
            ValueError: If the search is not greedy, since a beam's words are only final at the end.
        """
        if not isinstance(self.search, GreedySearch):
            raise ValueError("the words of a beam are only final at the end; use Search(beam=1)")
        first = 0
        for part in parts:
            self.advance(self.stream.push(part))
            end = len(self.search.units)
            if end and self.search.spans[-1][1] == self.search.tokens:
                end -= 1  # the next token may extend the last unit
            yield from self.segments(first, end)
            first = end
        self.advance(self.stream.flush())
        yield from self.segments(first, len(self.search.units))
        self.search.restart()

    def segments(self, first: int, end: int) -> tuple[Segment, ...]:
        """The segments of units `first` to `end` (exclusive) of the greedy search."""
        part = Hypothesis(tuple(self.search.units[first:end]), 0.0, tuple(self.search.spans[first:end]))
        return to_transcript(part, self.labels, self.tokens).units

    def advance(self, logits: Tensor) -> None:
        """Continue the search with the next logits (T, C)."""
        if len(logits):
            self.search.push(logits.float().log_softmax(-1).cpu())
