"""Levels of samples: silent, clipped, floats that were not scaled, and the stretch of most energy.

This file needs numpy alone: `vitspeech export` copies it into the folders that it writes.

Shapes: N samples.
"""

from dataclasses import dataclass
from typing import Self

import numpy

LOUDEST = 16.0  # decoders of lossy formats exceed ±1; floats beyond this are integers that were not scaled
SILENT_PEAK = 16  # of int16: -66 dBFS
CLIPPED_SAMPLES, CLIPPED_FRACTION = 8, 0.001
# What is odd about recordings that are read nevertheless.
SILENT, CLIPPED = "silent (nothing above -66 dBFS)", "clipped (many samples at full scale)"
CANCELED = "nearly silent because channels cancel each other; keep one channel"
CANCELED_POWER = 0.001  # of the mean of canceled channels, by that of the channels: -30 dB


def problem_of_floats(peak: float) -> str:
    """What is wrong with floats whose largest absolute value this is: they are not samples within ±1; or ""."""
    if peak <= LOUDEST:  # false of NaN as well
        return ""
    if not peak < float("inf"):
        return "floats that are not finite (NaN or infinite) are not samples within ±1"
    return f"floats up to {peak:g} are not samples within ±1; divide them by full scale, such as 32768"


@dataclass
class Levels:
    """The levels of samples, int16 or floats within ±1, that are seen in blocks."""

    peak: float = 0.0  # the largest absolute value, of int16
    at_full_scale: int = 0
    count: int = 0

    def add(self, samples: numpy.ndarray) -> Self:
        """Look at the next samples (N,)."""
        scale = 32768 if samples.dtype.kind == "f" else 1
        peak = max(-float(samples.min(initial=0)), float(samples.max(initial=0))) * scale
        if peak >= 32767:
            self.at_full_scale += numpy.count_nonzero((samples >= 32767 / scale) | (samples <= -32767 / scale))
        self.peak, self.count = max(self.peak, peak), self.count + len(samples)
        return self

    @property
    def problem(self) -> str:
        """`SILENT`, `CLIPPED` or ""."""
        if round(self.peak) <= SILENT_PEAK:
            return SILENT
        return CLIPPED if self.at_full_scale >= max(CLIPPED_SAMPLES, CLIPPED_FRACTION * self.count) else ""


def to_int16(samples: numpy.ndarray) -> numpy.ndarray:
    """Floats within ±1 as int16; those beyond are clamped."""
    return (samples * 32768).round().clip(-32768, 32767).astype(numpy.int16)


def fit_length(samples: numpy.ndarray, length: int) -> numpy.ndarray:
    """Pad int16 (N,) with zeros on both sides to (length,), or keep the stretch of that length with most energy."""
    missing = length - len(samples)
    if missing >= 0:
        return numpy.pad(samples, (missing // 2, missing - missing // 2)) if missing else samples
    total = numpy.append(0, numpy.cumsum(samples.astype(numpy.int64) ** 2))
    energy = total[length:] - total[:-length]
    # Many stretches contain a short word and have almost equal energy; the median one keeps it off the edges.
    best = (energy >= energy.max() - energy.max() // 1000).nonzero()[0]
    first = best[len(best) // 2]
    return samples[first : first + length]
