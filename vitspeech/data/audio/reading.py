"""Reading audio files of any sample rate and number of channels as mono int16 samples, whole or part by part.

Shapes: N samples of a recording or a part, C channels, F files, L samples per clip.
"""

import io
import math
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy
import torch
from soundfile import LibsndfileError, SoundFile
from torch import Tensor
from torch.nn.functional import pad
from tqdm import tqdm

from vitspeech.errors import InputError, some_names
from vitspeech.files import check_regular, walk_files
from vitspeech.torch_audio import resample

SAMPLE_RATE_HZ = 16_000
LOWEST_HZ, HIGHEST_HZ = 1_000, 384_000
ENDINGS = {".flac", ".mp3", ".ogg", ".opus", ".wav"}
SHORTEST_S, LONGEST_S = 0.1, 60.0
IN_PARTS = "use `vitspeech stream` for long recordings"
MOST_SAMPLES = 2**29  # of all channels: 2 GiB of floats, nine hours at 16 kHz

FULL_SCALE = 32767
SILENT_PEAK = 16  # -66 dBFS
CLIPPED_SAMPLES, CLIPPED_FRACTION = 8, 0.001

UNRECOGNIZED, UNKNOWN_FRAMES = 1, 2**63 - 1  # libsndfile's SF_ERR_UNRECOGNISED_FORMAT and SF_COUNT_MAX
UNKNOWN_BYTES = 0x7FFF0000  # a WAV written to a pipe states 0x7FFFF000 bytes or more: length unknown
# libsndfile reads a truncated WAV, AIFF or AU without an error and reports it only in its log.
STATED_BYTES = re.compile(r"^ *(?:data|SSND|Data Size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)


class TooLongError(InputError):
    """A recording lasts longer than is allowed; the message ends with `IN_PARTS`."""


def walk_audio(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The named files, and all audio files in named folders, one after the other; see `walk_files`."""
    return walk_files(paths, ENDINGS, "recording")


def read_audio(path: str | Path, sample_rate_hz: int = SAMPLE_RATE_HZ, *, longest_s: float | None = None) -> Tensor:
    """Read a recording: average its channels, resample it and clamp floats beyond ±1.

    Args:
        path: WAV, FLAC, OGG (Vorbis or Opus), MP3 or another format that libsndfile reads.
        sample_rate_hz: Sample rate of the result.
        longest_s: Longest duration in seconds, checked in the header before reading; `None` allows any.

    Shape:
        -> int16 (N,)
    """
    path = Path(path)
    with opened(path, longest_s) as recording:
        frames, rate_hz, exact = recording.frames, recording.samplerate, is_exact(recording, sample_rate_hz)
        samples = torch.from_numpy(recording.read(frames, dtype="int16" if exact else "float32"))
    if len(samples) < frames:
        raise InputError(f"{path}: truncated: {len(samples):,} of {frames:,} samples are present")
    if exact:
        return samples
    mono = to_mono(path, samples)
    if rate_hz != sample_rate_hz:
        ratio = resampling_ratio(rate_hz, sample_rate_hz)
        mono = resample(mono, ratio.numerator, ratio.denominator)
    return to_int16(mono)


def is_exact(recording: SoundFile, sample_rate_hz: int) -> bool:
    """Whether the samples of a recording are taken as they are."""
    return recording.subtype == "PCM_16" and recording.channels == 1 and recording.samplerate == sample_rate_hz


def to_mono(path: Path, samples: Tensor) -> Tensor:
    """Average the channels of floats: (N,) or (N, C) -> (N,)."""
    if not samples.isfinite().all():
        raise InputError(f"{path}: has samples that are not finite (NaN or infinite)")
    return samples.mean(1) if samples.dim() == 2 else samples


def resampling_ratio(rate_hz: int, sample_rate_hz: int) -> Fraction:
    """The rate of a recording divided by the wanted one.

    The filter bank has one row per sample of the ratio's period, which takes gigabytes for 44,099 Hz; an approximate
    ratio of at most three digits avoids this.
    """
    return Fraction(rate_hz, sample_rate_hz).limit_denominator(1000)


def resampled_length(frames: int, rate_hz: int, sample_rate_hz: int = SAMPLE_RATE_HZ) -> int:
    """The number of samples that `read_audio` makes of so many frames; torchaudio rounds in single precision."""
    ratio = resampling_ratio(rate_hz, sample_rate_hz)
    return frames if ratio == 1 else math.ceil(numpy.float32(frames * ratio.denominator / ratio.numerator))


def to_int16(mono: Tensor) -> Tensor:
    """Floats within ±1 as int16 samples; those beyond are clamped."""
    return (mono * (FULL_SCALE + 1)).round().clamp(-FULL_SCALE - 1, FULL_SCALE).to(torch.int16)


@contextmanager
def opened(
    path: Path, longest_s: float | None = None, *, kind: type[SoundFile] = SoundFile, in_memory: bool = True
) -> Iterator[SoundFile]:
    """Open a recording; what is wrong with its header, or shows in libsndfile's log of reading it, is an `InputError`.

    A duration above `longest_s` is a `TooLongError`. `kind` reads the file, whose samples are all to be in memory at
    once if `in_memory`.
    """
    check_regular(path)
    try:
        with open_audio(path, kind) as recording:
            duration_s = recording.frames / max(recording.samplerate, 1)
            is_too_long = longest_s is not None and duration_s > longest_s
            if problem := problem_of(recording, in_memory and not is_too_long):
                raise InputError(f"{path}: {problem}")
            if is_too_long:
                raise TooLongError(f"{path}: lasts {duration_s:,.1f} s, above {longest_s:g} s; {IN_PARTS}")
            yield recording
    except LibsndfileError as error:
        problem = "not a recording that can be read" if error.code == UNRECOGNIZED else "broken or truncated recording"
        raise InputError(f"{path}: {problem} ({error.error_string.strip(' .')})") from None


def problem_of(recording: SoundFile, in_memory: bool) -> str | None:
    """What is wrong with a recording by its header, or by libsndfile's log of reading it; `None` if nothing is."""
    log, rate_hz = recording.extra_info, recording.samplerate
    sizes = STATED_BYTES.search(log)
    if sizes and int(sizes[1]) < UNKNOWN_BYTES:
        return f"truncated: {int(sizes[2]):,} of {int(sizes[1]):,} bytes of samples are present"
    if "Last page lacks an end-of-stream bit" in log:
        return "truncated: the end of its stream is missing"
    if recording.frames == 0:
        return "no samples"
    if recording.frames == UNKNOWN_FRAMES:
        return "does not state its length (written to a pipe?), so it cannot be read"
    if not LOWEST_HZ <= rate_hz <= HIGHEST_HZ:
        return f"a sample rate of {rate_hz:,} Hz is outside {LOWEST_HZ:,} to {HIGHEST_HZ:,} Hz"
    if in_memory and recording.frames * recording.channels > MOST_SAMPLES:
        size = f"{recording.frames / rate_hz / 3600:,.1f} hours in {recording.channels:,} channels"
        return f"lasts {size}, more than fits into memory; split it into parts"
    return None


def open_audio(path: Path, kind: type[SoundFile]) -> SoundFile:
    """Open an audio file, including a WAV written to a pipe whose header states a length of 0 bytes."""
    if path.suffix.lower() == ".raw":  # SoundFile asks for its sample rate
        raise InputError(f"{path}: samples without a header; convert them to WAV")
    name = path.absolute()  # libsndfile reads standard input for the name `-`
    recording = kind(os.fsencode(name) if os.name == "posix" else name)  # a `str` must be UTF-8 for SoundFile
    if recording.frames or recording.format not in ("WAV", "WAVEX"):
        return recording
    recording.close()
    if path.stat().st_size > MOST_SAMPLES:
        raise InputError(f"{path}: does not state its length, and has more than {MOST_SAMPLES:,} bytes")
    content = path.read_bytes()
    if int.from_bytes(content[4:8], "little") + 8 != len(content):
        # libsndfile reads everything that follows as samples if the stated file size is 8, but not if it is 0 or 36.
        content = content[:4] + bytes([8, 0, 0, 0]) + content[8:]
    return kind(io.BytesIO(content))


def read_clip(path: str | Path, sample_rate_hz: int = SAMPLE_RATE_HZ) -> Tensor:
    """Read a recording of SHORTEST_S to LONGEST_S seconds as `read_audio` does: int16 (N,)."""
    samples = read_audio(path, sample_rate_hz, longest_s=LONGEST_S)
    check_shortest(path, len(samples) / sample_rate_hz)
    return samples


def check_shortest(path: str | Path, duration_s: float) -> None:
    """Raise an `InputError` if a recording is shorter than SHORTEST_S."""
    if duration_s < SHORTEST_S:
        raise InputError(f"{path}: lasts {duration_s:.3g} s, below {SHORTEST_S:g} s, too short to hold a word")


def check_audio(path: Path) -> float:
    """Refuse a file whose header is not that of a clip that can be read; its duration in seconds.

    It is not decoded. The duration is that of the samples of `read_clip`.
    """
    with opened(path, LONGEST_S) as recording:
        duration_s = resampled_length(recording.frames, recording.samplerate) / SAMPLE_RATE_HZ
        check_shortest(path, duration_s)
        return duration_s


def read_fitted(path: Path, length: int) -> Tensor:
    """Read a recording as a clip of so many samples: int16 (length,); see `fit_length`."""
    return fit_length(read_clip(path), length)


def fit_length(samples: Tensor, length: int) -> Tensor:
    """Pad int16 (N,) with zeros on both sides to (length,), or keep the stretch of that length with most energy."""
    missing = length - len(samples)
    if missing >= 0:
        return pad(samples, (missing // 2, missing - missing // 2)) if missing else samples
    total = pad(samples.long().square().cumsum(0), (1, 0))
    energy = total[length:] - total[:-length]
    # Many stretches contain a short word and have almost equal energy; the median one keeps it off the edges.
    best = (energy >= energy.max() - energy.max() // 1000).nonzero()
    return samples[best[len(best) // 2] :][:length]


def read_clips(
    files: Iterable[str | Path], length: int, *, sample_rate_hz: int = SAMPLE_RATE_HZ, progress: str | None = None
) -> Tensor:
    """Read files as clips of `length` samples (see `fit_length`), in their order: int16 (F, L).

    Warns once about silent clips, in which no sample exceeds -66 dBFS, and once about clipped ones, of which at least 8
    samples and 0.1 % of all samples are at full scale. Of 15,062 clips of Speech Commands, 2 are silent and 138 are
    clipped. `progress` is the label of a progress bar, which is shown from 500 files on.
    """
    files = list(files)
    clips = numpy.empty((len(files), length), numpy.int16)  # NumPy uses huge pages, torch.empty does not
    for row, file in enumerate(tqdm(files, progress, disable=not progress or len(files) < 500 or None, leave=False)):
        clips[row] = fit_length(read_clip(file, sample_rate_hz), length).numpy()
    warn_of_levels(clips, files, stacklevel=3)
    return torch.from_numpy(clips)


def warn_of_levels(clips: numpy.ndarray, files: Sequence[str | Path], stacklevel: int = 2) -> None:
    """Warn once about the silent ones of int16 clips (F, L), and once about the clipped ones; see `read_clips`."""
    silent, clipped = [], []
    for clip, file in zip(clips, files, strict=True):
        if peak(clip) <= SILENT_PEAK:
            silent.append(file)
        elif is_clipped(clip):
            clipped.append(file)
    for problem, problem_files in (
        ("silent (nothing above -66 dBFS)", silent),
        ("clipped (many samples at full scale)", clipped),
    ):
        if problem_files:
            count, names = f"{len(problem_files):,} of {len(files):,}", some_names(problem_files)
            warnings.warn(f"{count} clips are {problem}: {names}", stacklevel=stacklevel)


def peak(samples: numpy.ndarray) -> int:
    """The largest absolute value of int16 samples (N,)."""
    return max(-int(samples.min(initial=0)), int(samples.max(initial=0)))


def is_clipped(samples: numpy.ndarray) -> bool:
    """Whether many of int16 samples (N,) are at full scale, as in `read_clips`."""
    at_full_scale = numpy.count_nonzero((samples >= FULL_SCALE) | (samples <= -FULL_SCALE))
    return at_full_scale >= max(CLIPPED_SAMPLES, CLIPPED_FRACTION * len(samples))


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
    """

    def __init__(self, path: str | Path, sample_rate_hz: int = SAMPLE_RATE_HZ, *, part_s: float = PART_S) -> None:
        self.path, self.sample_rate_hz, self.part_s = Path(path), sample_rate_hz, part_s
        with opened(self.path, in_memory=False) as recording:
            self.duration_s = recording.frames / recording.samplerate
        check_shortest(self.path, self.duration_s)

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the parts: int16 (N,)."""
        with opened(self.path, kind=SequentialFile, in_memory=False) as recording:
            exact = is_exact(recording, self.sample_rate_hz)
            blocks = self.blocks(recording, "int16" if exact else "float32")
            if exact:
                yield from blocks
                return
            parts = (to_mono(self.path, block) for block in blocks)
            ratio = resampling_ratio(recording.samplerate, self.sample_rate_hz)
            for part in parts if ratio == 1 else resampled(parts, ratio):
                yield to_int16(part)

    def blocks(self, recording: SoundFile, kind: str) -> Iterator[Tensor]:
        """The samples of the file at its own rate: (N,) or (N, C)."""
        present, count = 0, max(round(self.part_s * recording.samplerate), 1)
        while present < recording.frames:
            block = recording.read(min(count, recording.frames - present), dtype=kind)
            if not len(block):
                raise InputError(f"{self.path}: truncated: {present:,} of {recording.frames:,} samples are present")
            present += len(block)
            yield torch.from_numpy(block)


def resampled(parts: Iterable[Tensor], ratio: Fraction) -> Iterator[Tensor]:
    """Resample the parts of one recording to what torchaudio's `resample` makes of the whole: (N,) -> (N,).

    `ratio`, of the recording's rate and the new one, makes `ratio.denominator` samples of `ratio.numerator` ones, a
    period. The filter reaches into the neighboring periods, so each stretch is resampled together with them, and their
    samples are then dropped from the result.
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
