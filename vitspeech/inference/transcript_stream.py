"""What is said, while it is being said: transcripts of a stream, the last one being that of the whole recording.

Shapes: N samples, T tokens, C classes.
"""

from collections.abc import Iterable, Iterator

import numpy
from torch import Tensor

from vitspeech.checkpoint.folder import Model
from vitspeech.decoding.ctc import GreedySearch, Hypothesis
from vitspeech.inference.stream import stream
from vitspeech.inference.transcribe import Said, Search, Transcript, ctc_search, transcript
from vitspeech.models import SpeechRecognizer


class TranscriptStream:
    """Samples in, the transcript so far out.

    The recognizer's rows are those of the whole recording (`AudioStream`), and the search goes on from row to row; so
    after `flush` the transcript is the one that `vitspeech.transcribe` gives, however the sound was cut into pushes.
    With greedy search what has been said stays said; a beam may still change its last words.

    Args:
        model: A `SpeechRecognizer` from `vitspeech.load`, with a limited `right` in every block.
        search: How; `None` is `Search()`. What is kept grows with the transcript: a beam keeps it once a hypothesis.

    Raises:
        ValueError: If the model can't be streamed; the message says why.
    """

    def __init__(self, model: Model, *, search: Search | None = None) -> None:
        if not isinstance(model.network, SpeechRecognizer):
            raise ValueError(
                f"{type(model.network).__name__} gives no transcript as it listens; a SpeechRecognizer (CTC) does"
            )
        self.labels, self.tokens = model.labels, model.network.tokens
        self.stream, self.search = stream(model), ctc_search(search or Search())

    def push(self, samples: Tensor | numpy.ndarray) -> Transcript:
        """The next samples, int16 or floats within ±1: (N,) -> what has been said so far."""
        self.hear(self.stream.push(samples))
        return transcript(self.search.best(), self.labels, self.tokens)

    def flush(self) -> Transcript:
        """The transcript of all that was pushed, when no sound comes any more; the stream is then as new."""
        self.hear(self.stream.flush())
        found = transcript(self.search.best(), self.labels, self.tokens)
        self.search.restart()
        return found

    def words(self, parts: Iterable[Tensor]) -> Iterator[Said]:
        """The words of sound that comes in parts (N,), each once and as soon as it is final.

        Where characters are the units, each of them.

        Raises:
            ValueError: If the search is a beam's, whose words are not final before the end.
        """
        if not isinstance(self.search, GreedySearch):
            raise ValueError("a beam's words are final at the end alone; use Search(beam=1)")
        given = 0
        for part in parts:
            self.hear(self.stream.push(part))
            found = len(self.search.units)
            # The newest may go on with the next token.
            final = found - 1 if found and self.search.spans[-1][1] == self.search.tokens else found
            yield from self.between(given, final)
            given = final
        self.hear(self.stream.flush())
        yield from self.between(given, len(self.search.units))
        self.search.restart()

    def between(self, first: int, end: int) -> tuple[Said, ...]:
        """Of the greedy search's units, those from one place to another."""
        some = Hypothesis(tuple(self.search.units[first:end]), 0.0, tuple(self.search.spans[first:end]))
        return transcript(some, self.labels, self.tokens).units

    def hear(self, rows: Tensor) -> None:
        """Go on by rows of logits (T, C)."""
        if len(rows):
            self.search.push(rows.float().log_softmax(-1).cpu())
