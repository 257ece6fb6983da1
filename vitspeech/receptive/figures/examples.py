"""Single inputs with heat maps of what each model depends on, over the image or the spectrogram.

Shapes: K inputs, R rows, W columns of the source, T tokens, F log-mel frames, M mel bins.
"""

from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

from vitspeech.plots.style import GRAYSCALE, INVERTED_GRAYSCALE, VERMILION, plain
from vitspeech.receptive.compare import Result
from vitspeech.receptive.examples import Example
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.figures.layout import SMALL_FONT, WIDTH, CaptionedFigure, readable, with_styles, wrapped
from vitspeech.receptive.sample import Sample

MAPS = {
    "field": "effective receptive field of the middle unit of the last layer (square root)",
    "rollout": "attention rollout (Abnar and Zuidema 2020)",
    "relevance": "gradient-weighted relevance of the predicted label (Chefer et al. 2021)",
}
OVER_TIME = ("rollout", "relevance")
OVERLAY = LinearSegmentedColormap.from_list("overlay", [to_rgba(VERMILION, 0), to_rgba(VERMILION, 0.9)])


def draw_examples(results: Sequence[Result], sample: Sample) -> CaptionedFigure:
    """Images or spectrograms with heat maps over them; for speech also maps over time.

    Args:
        results: The models; those with examples are drawn.
        sample: The inputs; the examples are the first of them.
    """
    measured = [result for result in results if result.examples]
    names = [name for name in MAPS if any(name == example.what for r in measured for example in r.examples)]
    maps = "; ".join(f"{name}: {MAPS[name]}" for name in names)
    speech = measured[0].subject.takes_audio
    figure = draw_clips(measured, sample) if speech else draw_images(measured, sample)
    caption = (
        "Over the spectrograms, orange marks the input on which a unit in the middle of the clip depends. The panels "
        "below show maps over time. Every map is relative to its own maximum"
        if speech
        else "Orange marks the pixels on which a model depends. Every map is relative to its own maximum; predicted "
        "labels are below the maps"
    )
    models = ", ".join(
        f"{result.subject.name} ({', '.join(example.what for example in result.examples)})" for result in measured
    )
    count, noun = len(measured[0].examples[0].maps), "clips" if speech else "images"
    alt = f"Heat maps over {count} example {noun}, by model: {models}."
    return CaptionedFigure(figure, "Single inputs", f"{caption}. {maps[0].upper()}{maps[1:]}.", alt)


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
    first = field.center[0] - field.units[0][0] * layer.fields.stride
    return (first + numpy.arange(count) * layer.fields.stride + 0.5) * layer.cell
