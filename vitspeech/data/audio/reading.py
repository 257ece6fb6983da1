"""Sound of any sample rate and number of channels as mono int16 samples: files, whole or in parts, and arrays.

Shapes: N samples of a recording or a part, C channels, F files, L samples per clip.
"""

import math
import struct
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from vitspeech.data.audio import levels
from vitspeech.data.audio.audio_file import AudioFile
from vitspeech.data.audio.levels import Levels, problem_of_floats, to_int16
from vitspeech.data.rows import Content, readable_files
from vitspeech.errors import InputError, some_names
from vitspeech.files import check_regular, walk_files

SAMPLE_RATE_HZ = 16_000
LOWEST_HZ, HIGHEST_HZ = 1_000, 384_000
ENDINGS = {".flac", ".mp3", ".ogg", ".opus", ".wav"}
SHORTEST_S, LONGEST_S = 0.1, 60.0
HEAD_BYTES = 44  # of a WAV file
LOW_RATE = "of {:,} Hz: mel bins above {:,g} Hz are empty"
IN_PARTS = "use `vitspeech stream` for long recordings"


class TooLongError(InputError):
    """A recording lasts longer than is allowed; the message ends with `IN_PARTS`."""


def walk_audio(paths: Iterable[str | Path]) -> Iterator[Path]:
    """The named files, and all audio files in named folders, one after the other; see `walk_files`."""
    return walk_files(paths, ENDINGS, "recording")


class InputAudio(AudioFile):
    """A recording that the user named, as `AudioFile`; what is wrong with it is an `InputError`.

    A duration above `longest_s` is a `TooLongError`.
    """

    error = InputError

    def __init__(self, path: str | Path | Content, longest_s: float = math.inf) -> None:
        super().__init__(source_of(path))
        if not LOWEST_HZ <= self.rate_hz <= HIGHEST_HZ:
            self.refuse(f"a sample rate of {self.rate_hz:,} Hz is outside {LOWEST_HZ:,} to {HIGHEST_HZ:,} Hz")
        check_duration(path, self.duration_s, longest_s=longest_s)

    def is_exact(self, sample_rate_hz: int) -> bool:
        """Whether the samples are taken as they are."""
        return self.is_int16 and self.rate_hz == sample_rate_hz


def source_of(path: str | Path | Content) -> Path | Content:
    """What a recording is read from: a regular file, or bytes."""
    if not isinstance(path, Content):
        path = Path(path)
        check_regular(path)
    return path


def check_duration(name: object, duration_s: float, shortest_s: float = 0.0, longest_s: float = math.inf) -> None:
    """Refuse a recording that is too short, or by a `TooLongError` too long."""
    if duration_s < shortest_s:
        raise InputError(f"{name}: lasts {duration_s:.3g} s, below {shortest_s:g} s, too short to hold a word")
    if duration_s > longest_s:
        raise TooLongError(f"{name}: lasts {duration_s:,.1f} s, above {longest_s:g} s; {IN_PARTS}")


class Notes:
    """What is odd about recordings that are read nevertheless, such as silent ones; said in a warning for each kind."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = defaultdict(list)

    def add(self, path: object, notes: Iterable[str]) -> None:
        """Take the notes on a recording."""
        for note in notes:
            self.found[note].append(str(path))

    def warn(self, stacklevel: int = 1) -> None:
        """Warn of what was found since the last time."""
        for note in sorted(self.found):
            files = sorted(self.found.pop(note))
            count = "1 recording is" if len(files) == 1 else f"{len(files):,} recordings are"
            warnings.warn(f"{count} {note}: {some_names(files)}", stacklevel=stacklevel + 1)


def wav_head(samples: int) -> bytes:
    """The first bytes of a WAV file of so many samples, mono and 16 bits at 16 kHz, which follow."""
    form = (b"WAVE", b"fmt ", 16, 1, 1, SAMPLE_RATE_HZ, 2 * SAMPLE_RATE_HZ, 2, 16)
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + 2 * samples, *form, b"data", 2 * samples)


def plain_samples(path: Path | Content) -> Tensor | None:
    """The samples of a WAV file that is `wav_head` and up to a minute of samples, int16 (N,); of others `None`.

    Most recordings are such files, and libsndfile takes several times as long. `AudioFile` refuses files named .raw.
    """
    if path.suffix.lower() == ".raw":
        return None
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        count = int.from_bytes(head[-4:], "little") // 2
        if not 0 < count <= LONGEST_S * SAMPLE_RATE_HZ or head != wav_head(count):
            return None
        samples = numpy.empty(count + 1, numpy.int16)  # one more, to see whether the file ends here
        return torch.from_numpy(samples[:count]) if file.readinto(samples) == 2 * count else None


def read_audio(
    path: str | Path | Content,
    sample_rate_hz: int = SAMPLE_RATE_HZ,
    *,
    longest_s: float = math.inf,
    notes: Notes | None = None,
) -> Tensor:
    """Read a recording: average its channels, resample it and clamp floats beyond ±1.

    Args:
        path: WAV, FLAC, OGG (Vorbis or Opus), MP3 or another format that libsndfile reads.
        sample_rate_hz: Sample rate of the result.
        longest_s: Longest duration in seconds, checked before reading.
        notes: Takes what is odd about the recording, such as that it is silent.

    Shape:
        -> int16 (N,)
    """
    path = source_of(path)
    if sample_rate_hz == SAMPLE_RATE_HZ and (plain := plain_samples(path)) is not None:
        check_duration(path, len(plain) / sample_rate_hz, longest_s=longest_s)
        if notes is not None:
            notes.add(path, {Levels().add(plain.numpy()).problem} - {""})
        return plain
    file = InputAudio(path, longest_s)
    exact = file.is_exact(sample_rate_hz)
    samples = file.read(as_int16=exact)
    if notes is not None:
        low_rate = {LOW_RATE.format(file.rate_hz, file.rate_hz / 2)} if file.rate_hz < sample_rate_hz else set()
        notes.add(path, file.notes | low_rate)
    return torch.from_numpy(samples) if exact else at_rate(samples, file.rate_hz, sample_rate_hz)


def at_rate(samples: numpy.ndarray, rate_hz: int, sample_rate_hz: int) -> Tensor:
    """Resample floats within ±1 (N,), and clamp those beyond: int16 (N,)."""
    ratio = resampling_ratio(rate_hz, sample_rate_hz)
    if ratio != 1:
        from vitspeech.torch_audio import resample

        samples = resample(torch.from_numpy(samples), ratio.numerator, ratio.denominator).numpy()
    return torch.from_numpy(to_int16(samples))


def to_sound(samples: Any, rate_hz: int, sample_rate_hz: int) -> Tensor:
    """Sound in memory as `read_audio` makes it of a file: average its channels, resample it and clamp floats.

    Args:
        samples: An array or tensor, int16 or floats within ±1: (N,), or of one or two channels (N, C) or (C, N); or
            what `states_rate`.
        rate_hz: The sample rate of an array or tensor.
        sample_rate_hz: Sample rate of the result.

    Shape:
        -> int16 (N,)
    """
    if isinstance(samples, Mapping) and {"array", "sampling_rate"} <= samples.keys():
        samples, rate_hz = samples["array"], samples["sampling_rate"]
    elif hasattr(samples, "get_all_samples"):
        decoded = samples.get_all_samples()
        samples, rate_hz = decoded.data, decoded.sample_rate
    array = samples
    if isinstance(samples, Tensor):  # NumPy has no bfloat16
        array = (samples.float() if samples.is_floating_point() else samples).detach().cpu().numpy()
    shape = tuple(getattr(array, "shape", ()))
    if not isinstance(array, numpy.ndarray) or not (len(shape) == 1 or (len(shape) == 2 and min(shape) in (1, 2))):
        what = f"of shape {shape}" if isinstance(array, numpy.ndarray) else type(samples).__name__
        raise InputError(f"{what}: not a recording; give a path, or samples (N,), (N, channels) or (channels, N)")
    if array.dtype != numpy.int16 and array.dtype.kind != "f":
        raise InputError(f"samples of type {array.dtype} are neither int16 nor floats within ±1")
    if not LOWEST_HZ <= rate_hz <= HIGHEST_HZ:
        raise InputError(f"sample_rate={rate_hz} is outside {LOWEST_HZ:,} to {HIGHEST_HZ:,} Hz")
    if array.dtype == numpy.int16 and array.ndim == 1 and rate_hz == sample_rate_hz:
        return torch.from_numpy(numpy.require(array, numpy.int16, ["C", "W"]))
    floats = array / numpy.float32(32768) if array.dtype == numpy.int16 else array.astype(numpy.float32)
    if problem := problem_of_floats(float(abs(floats).max(initial=0))):
        raise InputError(f"{problem}, or pass int16")
    return at_rate(floats.mean(int(shape[0] > shape[1])) if array.ndim == 2 else floats, rate_hz, sample_rate_hz)


def states_rate(sound: Any) -> bool:
    """Whether a sound in memory states its sample rate, as those of the library `datasets` do.

    They are a mapping with `array` and `sampling_rate`, or an `AudioDecoder`.
    """
    return isinstance(sound, Mapping) or hasattr(sound, "get_all_samples")


def resampling_ratio(rate_hz: int, sample_rate_hz: int) -> Fraction:
    """The rate of a recording divided by the wanted one.

    The filter bank has one row per sample of the ratio's period, which takes gigabytes for 44,099 Hz; an approximate
    ratio of at most three digits avoids this.
    """
    return Fraction(rate_hz, sample_rate_hz).limit_denominator(1000)


def resampled_length(frames: int, rate_hz: int) -> int:
    """The number of samples that `read_audio` makes of so many frames; torchaudio rounds in single precision."""
    ratio = resampling_ratio(rate_hz, SAMPLE_RATE_HZ)
    return frames if ratio == 1 else math.ceil(numpy.float32(frames * ratio.denominator / ratio.numerator))


def read_clip(path: str | Path | Content, sample_rate_hz: int = SAMPLE_RATE_HZ, notes: Notes | None = None) -> Tensor:
    """Read a recording of SHORTEST_S to LONGEST_S seconds as `read_audio` does: int16 (N,)."""
    samples = read_audio(path, sample_rate_hz, longest_s=LONGEST_S, notes=notes)
    check_duration(path, len(samples) / sample_rate_hz, SHORTEST_S)
    return samples


def clip_of(samples: Any, rate_hz: int, sample_rate_hz: int) -> Tensor:
    """Sound in memory of SHORTEST_S to LONGEST_S seconds, as `to_sound` makes it: int16 (N,)."""
    sound = to_sound(samples, rate_hz, sample_rate_hz)
    check_duration("sound", len(sound) / sample_rate_hz, SHORTEST_S, LONGEST_S)
    return sound


def check_audio(path: Path | Content) -> float:
    """Refuse a file whose header is not that of a clip that can be read; its duration in seconds.

    It is decoded only if it does not state its length. The duration is that of the samples of `read_clip`.
    """
    file = InputAudio(path, LONGEST_S)
    duration_s = resampled_length(file.frames, file.rate_hz) / SAMPLE_RATE_HZ
    check_duration(path, duration_s, SHORTEST_S)
    return duration_s


def read_fitted(path: Path | Content, length: int) -> Tensor:
    """Read a recording as a clip of so many samples: int16 (length,); see `fit_length`."""
    return fit_length(read_clip(path), length)


def fit_length(samples: Tensor, length: int) -> Tensor:
    """Pad int16 (N,) with zeros on both sides to (length,), or keep the stretch of that length with most energy."""
    return torch.from_numpy(levels.fit_length(samples.numpy(), length))


def read_clips(files: Iterable[str | Path], length: int, *, sample_rate_hz: int = SAMPLE_RATE_HZ) -> Tensor:
    """Read files as clips of `length` samples (see `fit_length`), in their order: int16 (F, L).

    Files that cannot be read are named in one `InputError`. Warns once about silent recordings, in which no sample
    exceeds -66 dBFS, and once about clipped ones, of which at least 8 samples and 0.1 % of all samples are at full
    scale. Of 15,062 clips of Speech Commands, 2 are silent and 138 are clipped.
    """
    return readable_clips([*files], length, sample_rate_hz=sample_rate_hz)[0]


def readable_clips(
    files: Sequence[str | Path],
    length: int,
    *,
    sample_rate_hz: int = SAMPLE_RATE_HZ,
    split: str = "all",
    broken: float = 0.0,
    fit: Callable[[Tensor, int], Tensor] = fit_length,
    oddities: Callable[[int, Tensor], Iterable[str]] = lambda place, samples: (),
) -> tuple[Tensor, list[int]]:
    """As `read_clips`, but a share of the files may be broken: the clips of the others, and the places of these.

    `fit` makes a clip of a recording. `oddities` are further notes on one, by its place in `files` and its samples.
    """
    clips = numpy.empty((len(files), length), numpy.int16)  # NumPy uses huge pages, torch.empty does not
    notes = Notes()

    def read(place: int) -> None:
        samples = read_clip(files[place], sample_rate_hz, notes)
        notes.add(files[place], oddities(place, samples))
        clips[place] = fit(samples, length).numpy()

    places, _ = readable_files(range(len(files)), read, split, broken, verb="reading")
    notes.warn()
    return torch.from_numpy(clips if len(places) == len(files) else clips[places]), places


PART_S = 10.0
# Of torchaudio's resampling filter: zero crossings on each side, and its cutoff in Nyquist frequencies.
ZERO_CROSSINGS, CUTOFF = 6, 0.99


class AudioParts:
    """The parts of a recording, of `part_s` seconds or a bit more; each iteration reads the file from its beginning.

    Together they are the samples of `read_audio`. Where the rate is changed, a sample may differ by one of 32,768
    steps, because sums of floats are rounded in another order.

    Args:
        path: A recording of SHORTEST_S or more.
        sample_rate_hz: Sample rate of the parts.
        part_s: Duration of a part in seconds.

    Attributes:
        duration_s: Duration of the recording in seconds.
    """

    def __init__(self, path: str | Path, sample_rate_hz: int = SAMPLE_RATE_HZ, *, part_s: float = PART_S) -> None:
        self.path, self.sample_rate_hz, self.part_s = Path(path), sample_rate_hz, part_s
        self.duration_s = InputAudio(path).duration_s
        check_duration(path, self.duration_s, SHORTEST_S)

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the parts: int16 (N,). After the last one, a warning says what is odd about the recording."""
        file = InputAudio(self.path)
        exact = file.is_exact(self.sample_rate_hz)
        blocks = map(torch.from_numpy, file.blocks(max(round(self.part_s * file.rate_hz), 1), as_int16=exact))
        ratio = resampling_ratio(file.rate_hz, self.sample_rate_hz)
        for block in blocks if ratio == 1 else resampled(blocks, ratio):
            yield block if exact else torch.from_numpy(to_int16(block.numpy()))
        notes = Notes()
        notes.add(self.path, file.notes)
        notes.warn()


def resampled(parts: Iterable[Tensor], ratio: Fraction) -> Iterator[Tensor]:
    """Resample the parts of one recording to what torchaudio's `resample` makes of the whole: (N,) -> (N,).

    `ratio`, of the recording's rate and the new one, makes `ratio.denominator` samples of `ratio.numerator` ones, a
    period. The filter reaches into the neighboring periods, so each stretch is resampled together with them, and their
    samples are then dropped from the result.
    """
    from vitspeech.torch_audio import resample

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
