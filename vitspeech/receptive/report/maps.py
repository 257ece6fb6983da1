"""Heat maps: effective receptive fields, the energy of the last layer, and maps over single inputs.

Fields have one row per model and one column per layer. All panels share one color scale, and each is zoomed to the
field that it shows, so panels have different extents. Lengths are px of the image, or ms of the clip, negative in the
past.

Shapes: K inputs; R rows, W columns of the source; I, J rows and columns of a re-centered field; P cells of a field.
"""

from collections.abc import Callable, Sequence
from math import nan

import numpy
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from vitspeech.plots.style import (
    DARK_GRAY,
    EMPTY_GRAY,
    ENERGY,
    GRAYSCALE,
    INVERTED_GRAYSCALE,
    MARKERS,
    SKY_BLUE,
    VERMILION,
    WHITE,
    plain,
)
from vitspeech.receptive.compare import Example, Result
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.fields.layers import evenly_spaced
from vitspeech.receptive.fields.measures import Field, grid_of
from vitspeech.receptive.report.layout import (
    REFERENCE,
    SMALL_FONT,
    STATES,
    WIDTH,
    add_legend,
    labels_present,
    main_size_states,
    place_legend,
    readable,
    state_handles,
    state_label,
    subplots,
    with_styles,
    wrapped,
)
from vitspeech.receptive.sample import Sample

COLUMNS = 5
DECADES = 5  # of energy that the color scale covers
MARGIN = 1.12  # extent of a panel, relative to what it shows
FITTING, SLACK = 1.3, 2.0  # a theoretical field is shown up to this factor, and these cells, beyond the energy
STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8)
ZOOM_NOTE = "panels have different extents"
OUTLINES = {"theoretical field": (SKY_BLUE, "-"), "square with 90 % of the energy": (WHITE, "--")}
TICKS_HZ = (250, 1000, 4000)
LIMIT = {"color": SKY_BLUE, "linestyle": "-", "linewidth": 1.3}
DENSITY_MS = 10
LOWEST = 1e-6  # density below which nothing is drawn
ROUNDING = 1e-6  # fraction of the energy

OVER_TIME = ("rollout", "relevance")
OVERLAY = LinearSegmentedColormap.from_list("overlay", [to_rgba(VERMILION, 0), to_rgba(VERMILION, 0.9)])

DrawPanel = Callable[[Axes, LayerNumbers, LogNorm], AxesImage]


@readable
def draw_image_fields(results: Sequence[Result]) -> Figure:
    """The effective fields of image models, with the theoretical field and the square with 90 % of the energy."""

    def draw(axes: Axes, layer: LayerNumbers, norm: LogNorm) -> AxesImage:
        field = layer.fields.cumulative
        left, right = float(field.columns[0]) - 0.5, float(field.columns[-1]) + 0.5
        top, bottom = float(field.rows[0]) - 0.5, float(field.rows[-1]) + 0.5
        image = draw_mean(axes, field.mean, norm, (left, right, bottom, top))
        half = layer.cumulative["side_90"].value / 2
        outline(axes, "square with 90 % of the energy", (-half, half), (-half, half))
        extent = max(half, half_extent(field, norm, axes=(0, 1)))
        down, across = ((span.low - 0.5, span.high + 0.5) for span in field.theoretical)
        if field.known and max(map(abs, (*down, *across))) <= extent:
            outline(axes, "theoretical field", across, down)
        set_symmetric_ticks(axes, extent)
        axes.set(xlim=(-extent, extent), ylim=(extent, -extent), yticks=[])
        return image

    figure, _ = draw_grid(results, draw, label="fraction of the energy per pixel", margin=1.6)
    figure.supxlabel(f"px from the unit's center, same scale on both axes; {ZOOM_NOTE}", fontsize="medium")
    place_legend(
        figure,
        [Line2D([], [], color=color, linestyle=dashes, label=name) for name, (color, dashes) in OUTLINES.items()],
        frameon=True,  # white is visible on gray only
        facecolor=EMPTY_GRAY,
    )
    return figure


@readable
def draw_speech_fields(results: Sequence[Result]) -> Figure:
    """The effective fields of speech models over time and frequency, each panel zoomed in time to what it shows."""

    def draw(axes: Axes, layer: LayerNumbers, norm: LogNorm) -> AxesImage:
        field = layer.fields.cumulative
        early, late = (layer.cell * (float(field.rows[end]) + side) for end, side in ((0, -0.5), (-1, 0.5)))
        top = len(field.columns) - 0.5
        image = draw_mean(axes, field.mean.T, norm, (early, late, -0.5, top), origin="lower")
        extent = layer.cell * half_extent(field, norm, axes=(0,))
        draw_limits(axes, layer, extent, **LIMIT)
        set_symmetric_ticks(axes, extent)
        axes.set(aspect="auto", xlim=(-extent, extent), ylim=(-0.5, top))
        return image

    label = "fraction of the energy per frame and mel bin"
    figure, panels = draw_grid(results, draw, label=label, margin=2.6, sharey="row")
    for result, row in zip(results, panels, strict=True):
        centers_hz = result.subject.model.network.tokens.log_mel.centers_hz
        ticks = [tick for tick in TICKS_HZ if centers_hz[0] < tick < centers_hz[-1]]
        row[0].set_yticks(numpy.interp(ticks, centers_hz, range(len(centers_hz))), [f"{tick:,}" for tick in ticks])
    figure.supxlabel(f"ms from the unit (past | look-ahead); {ZOOM_NOTE}", fontsize="medium")
    figure.supylabel("frequency (Hz), mel scale", fontsize="medium")
    place_legend(figure, [Line2D([], [], label="theoretical field", **LIMIT)])
    return figure


def draw_grid(
    results: Sequence[Result], draw: DrawPanel, *, label: str, margin: float, **options: object
) -> tuple[Figure, numpy.ndarray]:
    """The grid of panels, of which rows are models, with its color bar; models with fewer layers leave panels empty.

    `margin` is the inches that model names, tick labels and the color bar take; options are those of `Figure.subplots`.
    """
    layers_of = [evenly_spaced(result.main.layers, COLUMNS) for result in results]
    largest = max(float(layer.fields.cumulative.mean.max()) for layers in layers_of for layer in layers)
    norm = LogNorm(largest / 10**DECADES, largest)
    columns = max(map(len, layers_of))
    side = min((WIDTH - margin) / columns, 2.4)
    figure = Figure(figsize=(WIDTH, (side + 0.72) * len(results) + 0.75), layout="constrained")
    panels = figure.subplots(len(results), columns, squeeze=False, **options)
    for result, layers, row in zip(results, layers_of, panels, strict=True):
        row[0].set_ylabel(wrapped(result.subject.name, 14), fontweight="bold")
        for axes, layer in zip(row, layers, strict=False):
            image = draw(axes, layer, norm)
            # A point is 1/72 inch, and a character is about half as wide as high.
            characters = int(side * 72 / (0.54 * SMALL_FONT))
            axes.set_title(f"{shortened(layer.name, characters)}\ndepth {layer.depth:.2f}", fontsize=SMALL_FONT)
            axes.tick_params(labelsize=SMALL_FONT)
            axes.set_facecolor(EMPTY_GRAY)
        for axes in row[len(layers) :]:
            axes.set_axis_off()
    bar = figure.colorbar(
        image, ax=panels, label=label, extend="min", pad=0.01, aspect=12 * len(results), fraction=0.04
    )
    bar.ax.tick_params(labelsize=SMALL_FONT)
    return figure, panels


def draw_mean(
    axes: Axes, mean: torch.Tensor, norm: LogNorm, extent: tuple[float, ...], *, origin: str = "upper"
) -> AxesImage:
    """Draw the mean of a field over inputs; cells without energy are gray."""
    colors = colormaps[ENERGY].with_extremes(bad=EMPTY_GRAY)
    values = numpy.ma.masked_equal(mean.numpy(), 0)
    return axes.imshow(values, cmap=colors, norm=norm, extent=extent, origin=origin, interpolation="nearest")


def half_extent(field: Field, norm: LogNorm, *, axes: Sequence[int]) -> float:
    """How many cells from its unit a panel extends: to all energy in color, and a theoretical field not much larger.

    `axes` are those of the field that count: 0 for rows, 1 for columns.
    """
    farthest, edges, colored = 0.5, [], field.mean >= min(norm.vmin, float(field.mean.max()))
    for axis in axes:
        offsets = (field.rows, field.columns)[axis]
        farthest = max(farthest, float(offsets[colored.any(1 - axis)].abs().max()) + 0.5)
        edges += [abs(field.theoretical[axis].low) + 0.5, abs(field.theoretical[axis].high) + 0.5]
    limit = FITTING * farthest + SLACK
    return MARGIN * max([farthest, *(edge for edge in edges if field.known and edge <= limit)])


def set_symmetric_ticks(axes: Axes, half: float) -> None:
    """Ticks at 0 and on both sides at the largest of `STEPS` · 10^k within 85 % of the panel."""
    power = 10.0 ** numpy.floor(numpy.log10(0.85 * half))
    tick = power * max(step for step in STEPS if step * power <= 0.85 * half)
    axes.set_xticks([-tick, 0, tick], [f"−{tick:g}", "0", f"{tick:g}"])


def outline(axes: Axes, name: str, across: tuple[float, float], down: tuple[float, float]) -> None:
    """Draw a rectangle, one of `OUTLINES`, between two columns and two rows."""
    color, dashes = OUTLINES[name]
    corner, width, height = (across[0], down[0]), across[1] - across[0], down[1] - down[0]
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=color, linestyle=dashes, linewidth=1.5))


def draw_limits(axes: Axes, layer: LayerNumbers, extent: float, **line: object) -> None:
    """Draw the start and the end of the theoretical field, at the outer edge of its last frame, if within `extent`."""
    for side, length in zip((-1, 1), layer.theoretical or (), strict=False):
        if length + layer.cell / 2 < extent:
            axes.axvline(side * (length + layer.cell / 2), **line)


def shortened(name: str, limit: int) -> str:
    """The name of a layer; of a long one "…" and the last parts that fit into `limit` characters."""
    parts = name.split(".")
    short = name
    for start in range(1, len(parts)):
        if len(short) <= limit:
            break
        short = "…" + ".".join(parts[start:])
    return short


@readable
def draw_image_energy(results: Sequence[Result]) -> Figure:
    """The energy of the last layer within a radius, before and after training."""
    figure, ((axes,),) = subplots(1, 1, 4.4)
    for fraction in (0.5, 0.9):
        axes.axhline(fraction, **REFERENCE)
    states = main_size_states(results)
    for result, state, style in states:
        radii, fractions = energy_within_radius(state.layers[-1].fields.cumulative)
        every = (0.02 * MARKERS.index(style.marker), 0.14)  # keeps the markers of the models apart
        axes.plot(
            radii,
            fractions,
            STATES[state_label(result, state)],
            color=style.color,
            marker=style.marker,
            markevery=every,
            linewidth=2.2 if state.trained else 1.4,
        )
    axes.set(xlabel="radius around the unit's center (px)", ylabel="fraction of the energy", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    add_legend(figure, with_styles(results), states=labels_present(states))
    return figure


def energy_within_radius(field: Field) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The radii in px at which there is energy, and the fraction of the energy within each: two arrays (P,)."""
    down, across = grid_of(field)
    radii, place = torch.hypot(down, across).round(decimals=6).unique(return_inverse=True)
    fractions = place.flatten().bincount(weights=field.mean.double().flatten()).cumsum(0)
    end = int((fractions < 1 - ROUNDING).sum()) + 1
    return radii[:end].numpy(), fractions[:end].numpy()


@readable
def draw_speech_energy(results: Sequence[Result]) -> Figure:
    """The energy of the last layer over time, before and after training: one panel per model."""
    columns = min(len(results), 2)
    figure, panels = subplots(-(-len(results) // columns), columns, 0, sharex=True, sharey=True)
    figure.set_figheight(2.3 * len(panels) + 0.9)
    longest = max(1000 * result.main.size for result in results)
    for axes in panels.flat[len(results) :]:
        axes.set_axis_off()
    panel_of = {id(result): axes for result, axes in zip(results, panels.flat, strict=False)}
    for result, state, style in main_size_states(results):
        axes, layer = panel_of[id(result)], state.layers[-1]
        times, density = density_over_time(layer)
        line = {"linewidth": 2.2} if state.trained else {"linewidth": 1.4, "alpha": 0.8}
        axes.semilogy(times, density, STATES[state_label(result, state)], color=style.color, **line)
        if state is result.main:
            draw_limits(axes, layer, longest, color=DARK_GRAY, linewidth=1.1)
            axes.axvline(0, **REFERENCE)
            ahead = 100 * layer.cumulative["ahead_share"].value
            axes.set_title(f"{wrapped(result.subject.name, 36)}\n{ahead:.0f} % of the energy is look-ahead")
            axes.set(xlim=(-longest, longest), xticks=[-longest / 2, 0, longest / 2])
    figure.supxlabel("ms from the unit (past | look-ahead)", fontsize="medium")
    figure.supylabel(f"fraction of the energy per {DENSITY_MS} ms", fontsize="medium")
    limit = Line2D([], [], color=DARK_GRAY, linewidth=1.1, label="theoretical field")
    place_legend(figure, [*state_handles(labels_present(main_size_states(results)), results), limit])
    return figure


def density_over_time(layer: LayerNumbers) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Times in ms from the unit, and the fraction of the energy per `DENSITY_MS`; NaN below `LOWEST`."""
    field = layer.fields.cumulative
    density = field.mean.sum(1).numpy() * DENSITY_MS / layer.cell
    return field.rows.numpy() * layer.cell, numpy.where(density > LOWEST, density, nan)


@readable
def draw_images(results: Sequence[Result], sample: Sample) -> Figure:
    """One row per input: the image, then each model's maps over the image in gray."""
    columns = [(result, example) for result in results for example in result.examples]
    count = len(columns[0][1].maps)
    side = max(WIDTH / (1 + len(columns)), 1.2)  # inches
    characters = int(side * 72 / (0.6 * SMALL_FONT))
    figure = Figure(figsize=(side * (1 + len(columns)), (side + 0.15) * count + 0.7), layout="constrained")
    panels = figure.subplots(count, 1 + len(columns), squeeze=False)
    for number, row in enumerate(panels):
        image = sample.raw[number].permute(1, 2, 0).numpy()
        row[0].imshow(image)
        label = "" if sample.labels is None else sample.names[sample.labels[number]]
        row[0].set_ylabel(plain(label), fontsize=SMALL_FONT)
        for axes, (result, example) in zip(row[1:], columns, strict=True):
            overlay(axes, image, example, number)
            if number == 0:
                axes.set_title(f"{wrapped(result.subject.name, characters)}\n{example.what}", fontsize=SMALL_FONT)
        for axes in row:
            axes.set(xticks=[], yticks=[])
    panels[0][0].set_title("image", fontsize=SMALL_FONT)
    return figure


def overlay(axes: Axes, image: numpy.ndarray, example: Example, number: int) -> None:
    """Draw one map over the image in gray, at the size of the map."""
    values = example.maps[number].numpy()
    edge = (-0.5, values.shape[1] - 0.5, values.shape[0] - 0.5, -0.5)
    axes.imshow(image.mean(2), cmap=GRAYSCALE, extent=edge, vmin=0, vmax=255)
    axes.imshow(values, cmap=OVERLAY, vmin=0, vmax=1, extent=edge, interpolation="nearest")
    if example.labels is not None and example.what == "field":
        axes.set_xlabel(plain(example.labels[number]), fontsize=SMALL_FONT)


@readable
def draw_clips(results: Sequence[Result], sample: Sample) -> Figure:
    """One column per input: the spectrogram, each model's field over it, then a panel for each map over time."""
    names = [name for name in OVER_TIME if any(example.what == name for r in results for example in r.examples)]
    count = len(results[0].examples[0].maps)
    rows = 1 + len(results) + len(names)
    figure = Figure(figsize=(WIDTH, 0.9 + 1.15 * rows), layout="constrained")
    panels = figure.subplots(rows, count, squeeze=False, sharex=True, sharey="row")
    subject, hop_ms = results[0].subject, results[0].main.layers[0].cell
    log_mel = subject.network(trained=subject.trained).tokens.log_mel
    frames = log_mel(subject.inputs(sample.raw[:count], results[0].main.size)).cpu().numpy()
    for number, column in enumerate(panels.T):
        spectrum, edge = frames[number].T, (0, frames.shape[1] * hop_ms, 0, frames.shape[2])
        options = {"origin": "lower", "aspect": "auto", "extent": edge}
        for axes in column[: 1 + len(results)]:
            axes.imshow(spectrum, cmap=INVERTED_GRAYSCALE, alpha=1 if axes is column[0] else 0.4, **options)
        for axes, result in zip(column[1:], results, strict=False):
            field = next(example for example in result.examples if example.what == "field")
            axes.imshow(field.maps[number].T.numpy(), cmap=OVERLAY, vmin=0, vmax=1, interpolation="nearest", **options)
        label = "" if sample.labels is None else f"“{sample.names[sample.labels[number]]}”"
        column[0].set_title(plain(label))
        for axes, name in zip(column[1 + len(results) :], names, strict=True):
            draw_lines(axes, results, name, number)
            axes.set_ylim(0, 1.05)
            axes.grid(alpha=0.3)
        column[-1].set_xlabel("time (ms)", fontsize=SMALL_FONT)
    titles = ["mel bin", *(wrapped(result.subject.name, 12) for result in results)]
    titles += [f"{name}\n(relative)" for name in names]
    for axes, title in zip(panels[:, 0], titles, strict=True):
        axes.set_ylabel(title, fontsize=SMALL_FONT)
    for axes in panels.flat:
        axes.tick_params(labelsize=SMALL_FONT)
    if names:
        lines, labels = panels[-1][0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside lower center", ncols=min(len(labels), 2), frameon=False)
    return figure


def draw_lines(axes: Axes, results: Sequence[Result], name: str, number: int) -> None:
    """Draw one map of one input over time: one line per model that has it."""
    for result, style in with_styles(results):
        for example in result.examples:
            if example.what == name:
                values = example.maps[number, :, 0].numpy()
                times = unit_times_ms(result.main.layers[-1], len(values))
                line = {"linestyle": style.dashes, "color": style.color, "linewidth": 1.6}
                axes.plot(times, values, label=plain(result.subject.name), **line)


def unit_times_ms(layer: LayerNumbers, count: int) -> numpy.ndarray:
    """The times of a layer's units on the spectrogram, whose first frame is drawn from 0 to one hop: (count,)."""
    field = layer.fields.cumulative
    first = field.center[0] - field.probe_units[0][0] * layer.fields.stride
    return (first + numpy.arange(count) * layer.fields.stride + 0.5) * layer.cell
