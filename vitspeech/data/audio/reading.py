"""Read a recording of any rate and number of channels as int16 samples of one channel.

Shapes: N samples of one recording, F files, L samples of every clip.
"""

import io
import re
import warnings
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy
import torch
from soundfile import LibsndfileError, SoundFile
from torch import Tensor
from torch.nn.functional import pad
from torchaudio.functional import resample
from tqdm import tqdm

from vitspeech.data.files import find_files

SAMPLE_RATE_HZ = 16_000
LOWEST_HZ, HIGHEST_HZ = 1_000, 384_000
ENDINGS = {".flac", ".mp3", ".ogg", ".opus", ".wav"}
SHORTEST_S, LONGEST_S = 0.1, 60.0

FULL_SCALE = 32767
SILENT_PEAK = 16  # -66 dBFS
CLIPPED_SAMPLES, CLIPPED_SHARE = 8, 0.001

UNRECOGNIZED, UNKNOWN_FRAMES = 1, 2**63 - 1  # libsndfile's SF_ERR_UNRECOGNIZED_FORMAT and SF_COUNT_MAX
UNKNOWN_BYTES = 0x7FFF0000  # tools that write a WAV to a pipe promise 0x7FFFF000 bytes or more: as many as come
# libsndfile reads what there is of a truncated WAV, AIFF or AU without an error; only its log tells.
PROMISED = re.compile(r"^ *(?:data|SSND|Data Size) *: (\d+) \(should be (\d+)\)", re.MULTILINE)


def find_audio(paths: Iterable[str | Path]) -> list[Path]:
    """The recordings among files and folders; see `find_files`."""
    return find_files(paths, ENDINGS, "recording")


def read_audio(path: str | Path, sample_rate_hz: int = SAMPLE_RATE_HZ, *, longest_s: float | None = None) -> Tensor:
    """Read a recording, its channels mixed down by their mean, resampled; floats beyond ±1 are clamped.

    Args:
        path: WAV, FLAC, OGG (Vorbis or Opus), MP3 or whatever else libsndfile reads.
        sample_rate_hz: The rate wanted.
        longest_s: A longer one is refused by its header, before it is read; `None` reads any.

    Shape:
        -> int16 (N,)

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is empty, truncated, too long or no recording, or holds no samples or some that are
            no finite numbers; the message names it.
    """
    path = Path(path)
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: empty (0 bytes)")
    try:
        with opened(path) as recording:
            check_header(path, recording, longest_s)
            frames, rate_hz = recording.frames, recording.samplerate
            exact = recording.subtype == "PCM_16" and recording.channels == 1 and rate_hz == sample_rate_hz
            read = torch.from_numpy(recording.read(frames, dtype="int16" if exact else "float32"))
    except LibsndfileError as error:
        problem = "not a recording that can be read" if error.code == UNRECOGNIZED else "broken or truncated recording"
        raise ValueError(f"{path}: {problem} ({error.error_string.strip(' .')})") from None
    if len(read) < frames:
        raise ValueError(f"{path}: truncated: {len(read):,} of {frames:,} samples are there")
    if exact:
        return read
    if not read.isfinite().all():
        raise ValueError(f"{path}: holds samples that are no finite numbers (NaN or infinite)")
    mixed = read.mean(1) if read.dim() == 2 else read
    if rate_hz != sample_rate_hz:
        # The filter has a row for every sample of the ratio's period, gigabytes for 44,099 Hz: three digits will do.
        ratio = Fraction(rate_hz, sample_rate_hz).limit_denominator(1000)
        mixed = resample(mixed, ratio.numerator, ratio.denominator)
    return (mixed * (FULL_SCALE + 1)).round().clamp(-FULL_SCALE - 1, FULL_SCALE).to(torch.int16)


def opened(path: Path) -> SoundFile:
    """A recording; also a WAV whose header, written to a pipe, promises 0 bytes although there are more."""
    recording = SoundFile(path)
    if recording.frames or recording.format not in ("WAV", "WAVEX"):
        return recording
    recording.close()
    content = path.read_bytes()
    if int.from_bytes(content[4:8], "little") + 8 != len(content):
        # libsndfile takes all that follows for samples where the file's own size is 8, but not where it is 0 or 36.
        content = content[:4] + bytes([8, 0, 0, 0]) + content[8:]
    return SoundFile(io.BytesIO(content))


def check_header(path: Path, recording: SoundFile, longest_s: float | None) -> None:
    """Refuse what is wrong by the header or by what libsndfile logged when it read it."""
    log = recording.extra_info
    promised = PROMISED.search(log)
    if promised and int(promised[1]) < UNKNOWN_BYTES:
        raise ValueError(f"{path}: truncated: {int(promised[2]):,} of {int(promised[1]):,} bytes of samples are there")
    if "Last page lacks an end-of-stream bit" in log:
        raise ValueError(f"{path}: truncated: its stream does not end")
    if recording.frames == 0:
        raise ValueError(f"{path}: no samples")
    if recording.frames == UNKNOWN_FRAMES:
        raise ValueError(f"{path}: does not say how long it is (written to a pipe?), so it cannot be read")
    if not LOWEST_HZ <= recording.samplerate <= HIGHEST_HZ:
        raise ValueError(f"{path}: {recording.samplerate:,} Hz is no rate of speech ({LOWEST_HZ:,} to {HIGHEST_HZ:,})")
    lasts_s = recording.frames / recording.samplerate
    if longest_s and lasts_s > longest_s:
        raise ValueError(f"{path}: lasts {lasts_s:,.1f} s, above {longest_s:g} s; scripts/stream.py takes long ones")


def read_clip(path: str | Path, sample_rate_hz: int = SAMPLE_RATE_HZ) -> Tensor:
    """Read a recording (int16, (N,)) as `read_audio` does; ValueError if no clip: outside SHORTEST_S to LONGEST_S."""
    samples = read_audio(path, sample_rate_hz, longest_s=LONGEST_S)
    if len(samples) < SHORTEST_S * sample_rate_hz:
        lasts_s = len(samples) / sample_rate_hz
        raise ValueError(f"{path}: lasts {lasts_s:.3g} s, below {SHORTEST_S:g} s, too short to hold a word")
    return samples


def fitted(samples: Tensor, length: int) -> Tensor:
    """Pad int16 (N,) with zeros equally on both sides to (length,), or keep the stretch with the most energy."""
    missing = length - len(samples)
    if missing >= 0:
        return pad(samples, (missing // 2, missing - missing // 2)) if missing else samples
    total = pad(samples.long().square().cumsum(0), (1, 0))
    energy = total[length:] - total[:-length]
    # A short word fits many stretches almost equally well: the middle one of them keeps it off the edges.
    best = (energy >= energy.max() - energy.max() // 1000).nonzero()
    return samples[best[len(best) // 2] :][:length]


def read_clips(
    files: Iterable[str | Path], length: int, *, sample_rate_hz: int = SAMPLE_RATE_HZ, progress: str | None = None
) -> Tensor:
    """Read files as clips of one length, in their order; warn once of silent clips and once of clipped ones.

    Silent is what has no sample above -66 dBFS; clipped what has at least 8 samples and 0.1 % at full scale, more than
    a single peak. Of 15,062 clips of Speech Commands 2 are silent and 138 clipped.

    Args:
        length: Samples L of every clip; see `fitted`.
        progress: What the bar says that is shown from 500 files on; `None` shows none.

    Shape:
        -> int16 (F, L)
    """
    files = list(files)
    clips = numpy.empty((len(files), length), numpy.int16)  # in huge pages, which torch.empty does not ask for
    silent, clipped = [], []
    for place, file in enumerate(tqdm(files, progress, disable=not progress or len(files) < 500, leave=False)):
        clips[place] = clip = fitted(read_clip(file, sample_rate_hz), length).numpy()
        low, high = int(clip.min()), int(clip.max())
        if max(-low, high) <= SILENT_PEAK:
            silent.append(file)
        elif max(-low, high) >= FULL_SCALE:
            at_full_scale = numpy.count_nonzero((clip >= FULL_SCALE) | (clip <= -FULL_SCALE))
            if at_full_scale >= max(CLIPPED_SAMPLES, CLIPPED_SHARE * length):
                clipped.append(file)
    for what, found in (("silent (nothing above -66 dBFS)", silent), ("clipped (many samples at full scale)", clipped)):
        if found:
            warnings.warn(f"{len(found):,} of {len(files):,} clips are {what}, first {found[0]}", stacklevel=2)
    return torch.from_numpy(clips)
