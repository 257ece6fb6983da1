"""Transcribe files: short recordings in batches, long ones as streams."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.reading import IN_PARTS, AudioParts, Notes, TooLongError, read_clip, walk_audio
from vitspeech.decoding.search import Search
from vitspeech.errors import InputError
from vitspeech.inference.batches import OnError, Position, run_in_batches
from vitspeech.inference.decode import check_search, transcribe_batch
from vitspeech.inference.stream import FULL_SCALE, why_not_streamed
from vitspeech.inference.transcript import Transcript, is_transcribing, wrong_model
from vitspeech.inference.transcript_stream import TranscriptStream

BATCH = 16
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} s [{elapsed}<{remaining}]"


@torch.inference_mode()
def transcribe(
    model: Model,
    paths: Iterable[str | Path],
    *,
    search: Search | None = None,
    batch: int = BATCH,
    on_error: OnError | None = None,
    progress: bool = False,
    after: Position | None = None,
) -> Iterator[tuple[Path, Transcript]]:
    """Transcribe recordings of any sample rate.

    Recordings of up to a minute are transcribed in batches. Longer ones are streamed, one after the other, if the model
    can be streamed: it was trained with CTC, and every block has a limited `right`. They are read while they are
    transcribed, so that memory does not grow with their length, apart from the transcript. Hypotheses of a beam that
    differ from the best one more than five minutes back are dropped then. Other models take up to a minute.

    The network runs on the device that it is on. Folders are walked, and recordings read in threads, while it runs: the
    first results of a large folder are there at once, and memory does not grow with the number of recordings.

    Args:
        model: From `vitspeech.load`, trained by `vitspeech.Recognition` or `vitspeech.Transcription`.
        paths: Files and folders; a folder stands for all its recordings, sorted by path.
        search: Search parameters; `None` is `Search()`.
        batch: Recordings per forward pass.
        on_error: Called with a recording that can't be read and the error, in the order of the files; the other files
            are transcribed. `None` raises the error.
        progress: Show a progress bar if there is more than one batch, and one in seconds for each long recording.
        after: Leave out the recordings up to this position, which an interrupted run with the same `batch` has done.

    Raises:
        FileNotFoundError: If a path does not exist or a folder holds no recording.
        InputError: If a file is empty, broken or too long and there is no `on_error`, or the model does not output
            transcripts, or the recording at the position `after` is another one.
    """
    if "symbols" in model.preprocessing or not is_transcribing(model):
        raise wrong_model(model, "does not transcribe recordings")
    check_search(model, search)

    def run(files: list[Path], recordings: list[Tensor | AudioParts]) -> Iterator[Transcript | Exception]:
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
    read = partial(read_recording, sample_rate_hz=rate_hz, refusal=why_not_streamed(model.network), notes=notes)
    options = {"batch": batch, "on_error": on_error, "progress": progress, "after": after}
    yield from run_in_batches(walk_audio(paths), read, run, **options)


def read_recording(path: Path, sample_rate_hz: int, refusal: str | None, notes: Notes) -> Tensor | AudioParts:
    """Read a recording of up to LONGEST_S: int16 (N,); a longer one is read later, part by part.

    `refusal` says why long recordings are refused; `None` accepts them.
    """
    try:
        return read_clip(path, sample_rate_hz, notes)
    except TooLongError as error:
        if refusal is not None:
            raise InputError(str(error).removesuffix(IN_PARTS) + refusal) from None
    return AudioParts(path, sample_rate_hz)


def with_bar(recording: AudioParts, progress: bool) -> Iterator[Tensor]:
    """The parts of a recording, with a progress bar in seconds of sound if standard error is a terminal."""
    if not progress:
        yield from recording
        return
    from tqdm import tqdm

    options = {"bar_format": BAR, "disable": None, "leave": False}
    with tqdm(desc=recording.path.name, total=recording.duration_s, **options) as bar:
        for part in recording:
            yield part
            bar.update(len(part) / recording.sample_rate_hz)


def transcribe_short(
    model: Model, recordings: Sequence[tuple[Path, Tensor]], search: Search | None
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
            return [InputError(f"{recordings[0][0]}: {error}")]
        return [result for one in recordings for result in transcribe_short(model, [one], search)]
