"""Transcripts of recordings of any length, by a stream that keeps nothing but what may still change."""

from tqdm import tqdm

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.reading import AudioParts
from vitspeech.decoding.ctc import Hypothesis
from vitspeech.decoding.paths import Link, links_after
from vitspeech.errors import InputError
from vitspeech.inference.stream import stream
from vitspeech.inference.transcribe import Search, Transcript, to_transcript
from vitspeech.inference.transcript_stream import TranscriptStream


def why_not_streamed(model: Model) -> str | None:
    """Why a model can't be streamed, and which kind can; `None` if it can."""
    try:
        stream(model)
    except InputError as error:
        return str(error)
    return None


def transcribe_long(
    model: Model, recording: AudioParts, *, search: Search | None = None, progress: bool = False
) -> Transcript:
    """Transcribe a recording of any length; memory does not grow with it, apart from the transcript.

    The transcript is that of the whole recording. In one longer than five minutes, hypotheses of a beam that differ
    from the best one more than five minutes back are dropped, which leaves their places in the beam to others.

    Args:
        model: A model that can be streamed.
        recording: Its parts, at the sample rate of the model.
        search: Search parameters; `None` is `Search()`.
        progress: Show a progress bar in seconds of sound, if standard error is a terminal.

    Raises:
        InputError: If the recording is broken or truncated, or the model can't be streamed.
    """
    transcripts = TranscriptStream(model, search=search)
    links: list[Link] = []
    form = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} s [{elapsed}<{remaining}]"
    options = {"bar_format": form, "disable": None if progress else True, "leave": False}
    with tqdm(desc=recording.path.name, total=recording.duration_s, **options) as bar:
        for part in recording:
            transcripts.advance(transcripts.stream.push(part))
            links += transcripts.take_final()
            bar.update(len(part) / recording.sample_rate_hz)
        transcripts.advance(transcripts.stream.flush())
    links += links_after(None, transcripts.search.last)
    units, spans = tuple(link.unit for link in links), tuple((link.first, link.end) for link in links)
    result = Hypothesis(units, transcripts.search.log_probability, spans)
    return to_transcript(result, model.labels, transcripts.tokens)
