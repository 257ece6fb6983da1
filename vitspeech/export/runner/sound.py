"""Recordings and samples for an exported model, as vitspeech reads them. Recordings need soundfile.

Shapes: N samples.
"""

import shlex
import sys
from pathlib import Path

import numpy

from vitspeech.data.audio.levels import problem_of_floats, to_int16
from vitspeech.export.runner.model_folder import check_file
from vitspeech.terminal import one_line

SHORTEST_S = 0.1  # of a recording


def read_sound(path: str | Path, rate_hz: int, *, is_part: bool = False) -> numpy.ndarray:
    """Read a recording (WAV, FLAC, OGG or MP3), and average its channels: int16 (N,).

    What is odd about it, such as that it is silent, is printed in a line on standard error. A part of a recording may
    be short or silent.
    """
    from vitspeech.data.audio.audio_file import AudioFile

    check_file(path)
    file = AudioFile(Path(path))
    if file.rate_hz != rate_hz:
        resample = f"ffmpeg -i {shlex.quote(str(path))} -ar {rate_hz} resampled.wav"
        file.refuse(f"has {file.rate_hz} Hz, the model needs {rate_hz} Hz; resample it: {resample}")
    if not is_part and file.duration_s < SHORTEST_S:
        file.refuse(f"lasts {file.duration_s:.3g} s, below {SHORTEST_S} s")
    samples = file.read()
    for note in sorted(() if is_part else file.notes):
        print(f"run.py: warning: {one_line(path)}: {note}", file=sys.stderr, flush=True)
    return to_int16(samples)


def within_one(samples: numpy.ndarray) -> numpy.ndarray:
    """Samples, int16 or floats within ±1, as float32 within ±1, of the same shape; others are a ValueError."""
    samples = numpy.asarray(samples)
    if samples.dtype == numpy.int16:
        return samples / numpy.float32(32768)
    problem = problem_of_floats(float(abs(samples).max(initial=0)))
    if samples.dtype.kind != "f" or problem:
        raise ValueError(f"{problem or 'samples are neither floats nor int16'} ({samples.dtype})")
    return samples.astype(numpy.float32)
