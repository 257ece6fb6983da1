"""Speech for the gate: the sample recording."""

from functools import cache

from torch import Tensor

from vitspeech.data.audio.reading import read_audio
from vitspeech.samples import FOLDER

NAME = "left-right-go.wav"


@cache
def sample(rate_hz: int) -> Tensor:
    """The sample recording, within ±1 (N,)."""
    samples = read_audio(FOLDER / NAME, rate_hz)
    return samples if samples.is_floating_point() else samples / 32768


def recording(rate_hz: int, start_s: float = 0.0, seconds: float | None = None) -> Tensor:
    """A part of the sample recording, which is repeated if it is shorter: within ±1 (N,)."""
    samples, first = sample(rate_hz), round(start_s * rate_hz)
    after = len(samples) if seconds is None else first + round(seconds * rate_hz)
    return samples.repeat(1 + after // len(samples))[first:after]
