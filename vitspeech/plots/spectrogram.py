"""The log-mel spectrogram of a recording, as the background of other panels, and the size of their figure.

Shapes: N samples.
"""

from pathlib import Path

import numpy
from matplotlib.axes import Axes
from torch import Tensor

from vitspeech.checkpoint.folder import Model
from vitspeech.data.audio.reading import IN_PARTS, TooLongError, check_audio, read_clip
from vitspeech.errors import InputError
from vitspeech.frontends.log_mel import LogMel
from vitspeech.plots.style import SPECTROGRAM

TICKS_HZ = (250, 500, 1000, 2000, 4000, 8000, 16_000)
MIN_WIDTH_INCHES, MAX_WIDTH_INCHES = 9, 40


def draw_spectrogram(axes: Axes, log_mel: LogMel, waveforms: Tensor) -> None:
    """Draw the log-mel energies of the first of `waveforms` (B, N), with frequencies on the mel scale."""
    energies = log_mel.log_energies(waveforms)[0].T.cpu().numpy() * (10 / numpy.log(10))
    borders = cell_borders(energies.shape[1], log_mel.hop_samples, log_mel.window_samples, log_mel.sample_rate_hz)
    extent = (*borders[[0, -1]], -0.5, len(energies) - 0.5)
    image = axes.imshow(energies, cmap=SPECTROGRAM, aspect="auto", origin="lower", extent=extent)
    axes.figure.colorbar(image, ax=axes, label="energy (dB)", pad=0.01)
    centers_hz = log_mel.centers_hz.numpy()
    ticks = [tick for tick in TICKS_HZ if centers_hz[0] < tick < centers_hz[-1]]
    axes.set_yticks(numpy.interp(ticks, centers_hz, range(len(energies))), [f"{tick:,}" for tick in ticks])
    axes.set_ylabel("frequency (Hz), mel scale")


def cell_borders(count: int, hop: int, window: int, rate_hz: int) -> numpy.ndarray:
    """Borders in seconds of `count` cells, each one hop wide and centered on its window: (count + 1,)."""
    return ((numpy.arange(count + 1) - 0.5) * hop + window / 2) / rate_hz


def check_drawn(file: str, option: str) -> None:
    """Refuse a recording that is too long for an option that draws it, before it is read; other errors come then.

    Raises:
        InputError: If it is.
    """
    try:
        check_audio(Path(file))
    except TooLongError as error:
        raise InputError(str(error).removesuffix(IN_PARTS) + f"{option} draws no longer ones") from None
    except (ValueError, OSError):
        pass


def read_recording(model: Model, file: Path) -> tuple[Tensor, float]:
    """Read a recording for a network with `tokens`, and return it with its duration in seconds: -> (1, N).

    Raises:
        FileNotFoundError: If there is none.
        InputError: If it is empty, broken or shorter than a token.
    """
    rate_hz, window = model.preprocessing["sample_rate_hz"], model.network.tokens.window_samples
    samples = read_clip(file, rate_hz)
    if len(samples) < window:
        raise InputError(f"{file}: {len(samples)} samples are fewer than the {window} of one token")
    return (samples / 32768)[None].to(next(model.network.parameters()).device), len(samples) / rate_hz


def figure_width(seconds: float) -> float:
    """The width in inches of the figure of a recording."""
    return min(max(MIN_WIDTH_INCHES, 2 + seconds), MAX_WIDTH_INCHES)
