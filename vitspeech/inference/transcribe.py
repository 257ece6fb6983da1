"""Transcribe recordings: short ones in batches, long ones as streams; and sequences of symbols given as text."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.reading import AudioParts, Notes, walk_audio
from vitspeech.decoding.search import Search
from vitspeech.errors import InputError
from vitspeech.inference.batches import Input, OnError, Position, read_recording, run_in_batches, walk_inputs
from vitspeech.inference.decode import check_search, transcribe_batch
from vitspeech.inference.predict import SOUND_AXES
from vitspeech.inference.stream import FULL_SCALE, why_not_streamed
from vitspeech.inference.transcript import Transcript, check_model, is_transcribing, wrong_model
from vitspeech.inference.transcript_stream import TranscriptStream

BATCH = 16
GREEDY, MOST_SYMBOLS = Search(beam=1), 10_000  # of a sequence of symbols
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} s [{elapsed}<{remaining}]"


@torch.inference_mode()
def transcribe(
    model: Model,
    paths: Any,
    *,
    search: Search | None = None,
    sample_rate: int | None = None,
    batch: int = BATCH,
    on_error: OnError | None = None,
    progress: bool = False,
    after: Position | None = None,
) -> Iterator[tuple[Input, Transcript]]:
    """Transcribe recordings as `Model.transcribe` does, and yield each with its transcript.

    Recordings of up to a minute are transcribed in batches. Longer ones are streamed, one after the other, if the model
    can be streamed: it was trained with CTC, and every block has a limited `right`. They are read while they are
    transcribed, so that memory does not grow with their length, apart from the transcript. Hypotheses of a beam that
    differ from the best one more than five minutes back are dropped then. Other models take up to a minute.

    Args:
        model: From `vitspeech.load`, trained by `vitspeech.Recognition` or `vitspeech.Transcription`.
        paths: As the inputs of `Model.transcribe`, where the other arguments and the errors are, too.
        on_error: As in `vitspeech.predict`; so is `after`.
        progress: Show a progress bar if there is more than one batch, and one in seconds for each long recording.
    """
    check_model(model)
    if "symbols" in model.preprocessing or not is_transcribing(model):
        raise wrong_model(model, "does not transcribe recordings")
    check_search(model, search)

    def run(
        files: list[Input], recordings: list[Tensor | AudioParts | tuple[Tensor, ...]]
    ) -> Iterator[Transcript | Exception]:
        notes.warn()
        both = zip(files, recordings, strict=True)
        short = iter(transcribe_short(model, [item for item in both if isinstance(item[1], Tensor)], search))
        for recording in recordings:
            if isinstance(recording, Tensor):
                yield next(short)
                continue
            try:
                yield TranscriptStream(model, search=search).transcript(with_bar(recording, progress))
            except (ValueError, OSError) as error:  # of reading
                yield error

    rate_hz, notes = model.preprocessing["sample_rate_hz"], Notes()
    refusal, walk = why_not_streamed(model.network), partial(walk_inputs, axes=SOUND_AXES, walk=walk_audio)
    read = partial(read_recording, sample_rate_hz=rate_hz, refusal=refusal, notes=notes, sample_rate=sample_rate)
    options = {"batch": batch, "on_error": on_error, "progress": progress, "after": after}
    yield from run_in_batches(walk(paths), read, run, **options)


def with_bar(recording: AudioParts | tuple[Tensor, ...], progress: bool) -> Iterator[Tensor]:
    """The parts of a recording, with a progress bar in seconds of sound if standard error is a terminal."""
    if not progress or isinstance(recording, tuple):
        yield from recording
        return
    from tqdm import tqdm

    options = {"bar_format": BAR, "disable": None, "leave": False}
    with tqdm(desc=recording.path.name, total=recording.duration_s, **options) as bar:
        for part in recording:
            yield part
            bar.update(len(part) / recording.sample_rate_hz)


def transcribe_short(
    model: Model, recordings: Sequence[tuple[Input, Tensor]], search: Search | None
) -> list[Transcript | InputError]:
    """Transcribe recordings, int16 (N,) each, in one batch. For one that the network refuses, the error is returned."""
    if not recordings:
        return []
    device = next(model.network.parameters()).device
    lengths = torch.tensor([len(samples) for _, samples in recordings], device=device)
    waveforms = pad_sequence([samples for _, samples in recordings], True).to(device) / FULL_SCALE
    try:
        return transcribe_batch(model.network, model.labels, waveforms, lengths, search)
    except InputError as error:
        if len(recordings) == 1:
            source = recordings[0][0]
            return [InputError(f"{source if isinstance(source, Path) else 'sound'}: {error}")]
        return [result for one in recordings for result in transcribe_short(model, [one], search)]


@torch.inference_mode()
def transcribe_symbols(model: Model, texts: Iterable[str], *, search: Search | None = None) -> list[Transcript]:
    """The output of a model for each sequence of symbols, such as `3 1 4 1 5`.

    Args:
        model: From `vitspeech.load`, trained on symbols, as by `vitspeech.SymbolTasks`.
        texts: The sequences. Symbols are separated by spaces; spaces may be left out if all of the model's symbols are
            single characters.
        search: Search parameters; `None` is greedy search.

    Raises:
        InputError: If the model does not take symbols, or a sequence is empty, too long or has another symbol.
    """
    check_model(model)
    if "symbols" not in model.preprocessing:
        raise wrong_model(model, "does not take symbols")
    check_search(model, search)
    device, transcripts = next(model.network.parameters()).device, []
    for indices in [read_symbols(text, model.preprocessing["symbols"]) for text in texts]:
        symbols, lengths = torch.tensor([indices], device=device), torch.tensor([len(indices)])
        transcripts += transcribe_batch(model.network, model.labels, symbols, lengths, search or GREEDY)
    return transcripts


def read_symbols(text: str, symbols: Sequence[str]) -> list[int]:
    """The indices of the symbols of a text."""
    parts = list("".join(text.split())) if all(len(symbol) == 1 for symbol in symbols) else text.split()
    if not 1 <= len(parts) <= MOST_SYMBOLS:
        raise InputError(f"a sequence of {len(parts):,} symbols; it must have 1 .. {MOST_SYMBOLS:,}")
    indices = {symbol: index for index, symbol in enumerate(symbols)}
    foreign = next((part for part in parts if part not in indices), None)
    if foreign is not None:
        shown = ", ".join(symbols[:50]) + (", …" if len(symbols) > 50 else "")
        raise InputError(f"{foreign!r} of {text[:100]!r} is not a symbol of the model; its symbols are {shown}")
    return [indices[part] for part in parts]
