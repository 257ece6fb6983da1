"""Reading a recording of any length part by part: the samples of `read_audio`, in memory that does not grow with it.

Shapes: N samples of a part, C channels.
"""

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import torch
from soundfile import LibsndfileError, SoundFile
from torch import Tensor
from torchaudio.functional import resample

from vitspeech.data.audio.reading import (
    SAMPLE_RATE_HZ,
    check_header,
    check_shortest,
    is_exact,
    open_audio,
    resampling_ratio,
    to_int16,
    to_mono,
    unread,
)
from vitspeech.data.files import check_regular
from vitspeech.errors import InputError

PART_S = 10.0
# Of torchaudio's resampling filter: zero crossings on each side, and its cutoff in Nyquist frequencies.
ZERO_CROSSINGS, CUTOFF = 6, 0.99


class SequentialFile(SoundFile):
    """A file that is read from its beginning to its end.

    After each read, `SoundFile` seeks to its current position, which makes an MP3 decoder lose its state.
    """

    def seekable(self) -> bool:
        """No."""
        return False


class AudioParts:
    """The parts of a recording, of `part_s` seconds or a bit more; each iteration reads the file from its beginning.

    Together they are the samples of `read_audio`. Where the rate is changed, a sample may differ by one of 32,768
    steps, because sums of floats are rounded in another order.

    Args:
        path: A recording of SHORTEST_S or more.
        sample_rate_hz: Sample rate of the parts.
        part_s: Duration of a part in seconds.

    Attributes:
        duration_s: Duration of the recording in seconds, as its header states it.

    Raises:
        FileNotFoundError: If the file does not exist.
        InputError: If its header is not that of a recording that can be read; see `read_audio`. Iterating raises it if
            the recording is truncated or broken, or has samples that are not finite.
    """

    def __init__(self, path: str | Path, sample_rate_hz: int = SAMPLE_RATE_HZ, *, part_s: float = PART_S) -> None:
        self.path, self.sample_rate_hz, self.part_s = Path(path), sample_rate_hz, part_s
        check_regular(self.path)
        try:
            with open_audio(self.path) as recording:
                check_header(self.path, recording, None, in_memory=False)
                self.duration_s = recording.frames / recording.samplerate
        except LibsndfileError as error:
            raise unread(self.path, error) from None
        check_shortest(self.path, self.duration_s)

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the parts: int16 (N,)."""
        try:
            with open_audio(self.path, SequentialFile) as recording:
                exact = is_exact(recording, self.sample_rate_hz)
                blocks = self.blocks(recording, "int16" if exact else "float32")
                if exact:
                    yield from blocks
                    return
                parts = (to_mono(self.path, block) for block in blocks)
                ratio = resampling_ratio(recording.samplerate, self.sample_rate_hz)
                for part in parts if ratio == 1 else resampled(parts, ratio):
                    yield to_int16(part)
        except LibsndfileError as error:
            raise unread(self.path, error) from None

    def blocks(self, recording: SoundFile, kind: str) -> Iterator[Tensor]:
        """The samples of the file at its own rate: (N,) or (N, C).

        Raises:
            InputError: If there are fewer than the header states.
        """
        present, count = 0, max(round(self.part_s * recording.samplerate), 1)
        while present < recording.frames:
            block = recording.read(min(count, recording.frames - present), dtype=kind)
            if not len(block):
                raise InputError(f"{self.path}: truncated: {present:,} of {recording.frames:,} samples are present")
            present += len(block)
            yield torch.from_numpy(block)


def resampled(parts: Iterable[Tensor], ratio: Fraction) -> Iterator[Tensor]:
    """Resample the parts of one recording to what torchaudio's `resample` makes of the whole: (N,) -> (N,).

    `ratio.numerator` samples, a period, become `ratio.denominator` ones. The filter reaches into the neighboring
    periods, so each stretch is resampled together with them, and their samples are then dropped from the result.

    Args:
        parts: The parts of the recording.
        ratio: Its sample rate divided by the new one.
    """
    period, made = ratio.numerator, ratio.denominator
    reach = math.ceil(ZERO_CROSSINGS * period / (min(period, made) * CUTOFF))  # samples on each side of a period
    margin = math.ceil(reach / period)  # periods
    held, done = torch.zeros(0), 0  # the samples that are still needed, and how many of their periods were yielded
    for part in parts:
        held = torch.cat((held, part))
        final = len(held) // period - margin
        if final > done:
            yield resample(held[: (final + margin) * period], period, made)[done * made : final * made]
            begin = max(final - margin, 0)
            held, done = held[begin * period :], final - begin
    if len(held) > done * period:
        yield resample(held, period, made)[done * made :]
