"""The log-mel spectrogram of a recording, and heat maps over time below it.

Shapes: N samples, T tokens, S rows of a map.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
from matplotlib.axes import Axes
from torch import Tensor

from vitspeech.checkpoint.model import Model
from vitspeech.data.audio.reading import IN_PARTS, TooLongError, check_audio, read_clip
from vitspeech.errors import InputError
from vitspeech.frontends.log_mel import LogMel
from vitspeech.plots.style import PROBABILITY, SPECTROGRAM

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
    """Refuse a recording that is too long for an option that draws it, before it is read; other errors come then."""
    try:
        check_audio(Path(file))
    except TooLongError as error:
        raise InputError(str(error).removesuffix(IN_PARTS) + f"{option} draws no longer ones") from None
    except (ValueError, OSError):
        pass


def read_recording(model: Model, file: Path) -> tuple[Tensor, float]:
    """Read a recording for a network with `tokens`, and return it with its duration in seconds: -> (1, N)."""
    rate_hz, window = model.preprocessing["sample_rate_hz"], model.network.tokens.window_samples
    samples = read_clip(file, rate_hz)
    if len(samples) < window:
        raise InputError(f"{file}: {len(samples)} samples are fewer than the {window} of one token")
    return (samples / 32768)[None].to(next(model.network.parameters()).device), len(samples) / rate_hz


def figure_width(seconds: float) -> float:
    """The width in inches of the figure of a recording."""
    return min(max(MIN_WIDTH_INCHES, 2 + seconds), MAX_WIDTH_INCHES)


ROW_INCHES, BAR_INCHES = 0.19, 0.11
MAX_MAP_INCHES = 12


@dataclass(frozen=True)
class Map:
    """A heat map over time."""

    values: numpy.ndarray  # (S, T)
    names: list[str]  # names of the rows, from the top
    title: str  # title of the panel
    row_label: str  # label of the vertical axis
    value_label: str  # label of the color bar
    highest: float | None = None  # value of the darkest color; `None` is the maximum
    # the words that the rows spell, each with its first row and the one after its last. They replace the names if
    # there are too many of these
    words: Sequence[tuple[str, int, int]] = ()

    @property
    def height_inches(self) -> float:
        """High enough that the row names do not overlap, up to a limit."""
        return min(max(0.3 + ROW_INCHES * len(self.names), 1), MAX_MAP_INCHES)


def draw_map(axes: Axes, heat_map: Map, borders: numpy.ndarray) -> None:
    """Draw a map from light to dark, with the name of every row; of too many, with words or every n-th name."""
    extent = (*borders[[0, -1]], len(heat_map.names) - 0.5, -0.5)
    scale = {"vmin": 0, "vmax": heat_map.highest, "cmap": PROBABILITY}
    image = axes.imshow(heat_map.values, **scale, aspect="auto", interpolation="nearest", extent=extent)
    bar = {"pad": 0.01, "aspect": heat_map.height_inches / BAR_INCHES}
    axes.figure.colorbar(image, ax=axes, label=heat_map.value_label, **bar)
    step = math.ceil(len(heat_map.names) * ROW_INCHES / MAX_MAP_INCHES)
    if step > 1 and heat_map.words:
        rows, names = zip(*spelled(heat_map), strict=True)
    else:
        names = ["␣" if name == " " else name for name in heat_map.names]
        rows, names = range(0, len(names), step), names[::step]
    axes.set_yticks(rows, names, parse_math=False)
    axes.set(title=heat_map.title, ylabel=heat_map.row_label)


def spelled(heat_map: Map) -> list[tuple[float, str]]:
    """The center and the name of each word beside the rows; words that would overlap the one above are left out."""
    inches, shown = heat_map.height_inches / len(heat_map.names), []
    for word, first, end in heat_map.words:
        center = (first + end - 1) / 2
        if not shown or (center - shown[-1][0]) * inches >= ROW_INCHES:
            shown.append((center, word))
    return shown
