"""Some inputs, and what each model sees in them, laid over the picture or the spectrogram.

Shapes: K inputs, R rows, W columns of the source, T tokens, F log-mel frames, M mel bins.
"""

from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

from vitspeech.plots.style import VERMILION
from vitspeech.receptive.comparison import Result
from vitspeech.receptive.examples import Example
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.figures.layout import Drawn, with_looks, wrapped
from vitspeech.receptive.sample import Sample

WAYS = {
    "field": "effective field of the middle unit of the last layer (root, of its largest value)",
    "rollout": "rollout of attention (Abnar and Zuidema 2020)",
    "relevance": "gradient-weighted relevance of the label given (Chefer et al. 2021)",
}
OVER_TIME = ("rollout", "relevance")
SHORT = {"field": "field", "rollout": "rollout", "relevance": "relevance"}
SEEN = LinearSegmentedColormap.from_list("seen", [to_rgba(VERMILION, 0), to_rgba(VERMILION, 0.9)])  # clear to orange


def draw_examples(results: Sequence[Result], sample: Sample) -> Drawn:
    """Pictures or spectrograms with maps laid over them, of speech also maps over time.

    Args:
        results: Those with examples are drawn.
        sample: Whose first inputs the examples are of.
    """
    shown = [result for result in results if result.examples]
    ways = "; ".join(
        f"{SHORT[way]}: {WAYS[way]}" for way in WAYS if any(way == e.what for r in shown for e in r.examples)
    )
    if shown[0].subject.hears:
        figure = draw_clips(shown, sample)
        caption = (
            "Over the spectrogram, orange is where a unit in the middle of the clip looks; under it, maps over time, "
            f"each of its own largest value. {ways}."
        )
    else:
        figure = draw_pictures(shown, sample)
        caption = f"Orange is where a model looks, clear is where it does not, each of its own largest value. {ways}."
    return Drawn(figure, "What they see in single inputs", caption)


def draw_pictures(results: Sequence[Result], sample: Sample) -> Figure:
    """A row an input: the picture, then each model's maps over it in gray."""
    columns = [(result, example) for result in results for example in result.examples]
    count = len(columns[0][1].maps)
    figure = Figure(figsize=(1.5 * (1 + len(columns)), 1.62 * count + 0.7), layout="constrained")
    panels = figure.subplots(count, 1 + len(columns), squeeze=False)
    for number, row in enumerate(panels):
        picture = sample.raw[number].permute(1, 2, 0).numpy()
        row[0].imshow(picture)
        row[0].set_ylabel("" if sample.labels is None else sample.names[sample.labels[number]], fontsize=9)
        for axes, (result, example) in zip(row[1:], columns, strict=True):
            lay_over(axes, picture, example, number)
            if number == 0:
                axes.set_title(f"{result.subject.name}\n{SHORT[example.what]}", fontsize=8)
        for axes in row:
            axes.set(xticks=[], yticks=[])
    panels[0][0].set_title("picture", fontsize=8)
    return figure


def lay_over(axes: Axes, picture: numpy.ndarray, example: Example, number: int) -> None:
    """One map over a gray picture, both as large as the map."""
    seen = example.maps[number].numpy()
    edge = (-0.5, seen.shape[1] - 0.5, seen.shape[0] - 0.5, -0.5)
    axes.imshow(picture.mean(2), cmap="gray", extent=edge, vmin=0, vmax=255)
    axes.imshow(seen, cmap=SEEN, vmin=0, vmax=1, extent=edge, interpolation="nearest")
    if example.labels is not None and example.what == "field":
        axes.set_xlabel(example.labels[number], fontsize=8)


def draw_clips(results: Sequence[Result], sample: Sample) -> Figure:
    """A column an input: the spectrogram, each model's field over it, then a panel for each map over time."""
    ways = [way for way in OVER_TIME if any(example.what == way for result in results for example in result.examples)]
    count = len(results[0].examples[0].maps)
    rows = 1 + len(results) + len(ways)
    figure = Figure(figsize=(3.1 * count, 0.9 + 1.35 * rows), layout="constrained")
    panels = figure.subplots(rows, count, squeeze=False, sharex=True, sharey="row")
    subject, hop_ms = results[0].subject, results[0].main.layers[0].cell
    log_mel = subject.network(trained=subject.trained).tokens.log_mel
    frames = log_mel(subject.inputs(sample.raw[:count], results[0].main.size)).numpy()
    for number, column in enumerate(panels.T):
        heard, edge = frames[number].T, (0, frames.shape[1] * hop_ms, 0, frames.shape[2])
        spectrogram = {"origin": "lower", "aspect": "auto", "extent": edge}
        for axes in column[: 1 + len(results)]:
            axes.imshow(heard, cmap="gray_r", alpha=1 if axes is column[0] else 0.4, **spectrogram)
        for axes, result in zip(column[1:], results, strict=False):
            field = next(example for example in result.examples if example.what == "field")
            axes.imshow(field.maps[number].T.numpy(), cmap=SEEN, vmin=0, vmax=1, interpolation="nearest", **spectrogram)
        word = "" if sample.labels is None else f"“{sample.names[sample.labels[number]]}”"
        column[0].set_title(word, fontsize=10)
        for axes, way in zip(column[1 + len(results) :], ways, strict=True):
            draw_lines(axes, results, way, number)
            axes.set_ylim(0, 1.05)
            axes.grid(alpha=0.3)
        column[-1].set_xlabel("time (ms)")
    titles = ["mel bin", *(f"{wrapped(result.subject.name, 16)}\nmel bin" for result in results)]
    titles += [f"{SHORT[way]}\n(of its largest)" for way in ways]
    for axes, title in zip(panels[:, 0], titles, strict=True):
        axes.set_ylabel(title, fontsize=8)
    if ways:
        lines, names = panels[-1][0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside lower center", ncols=min(len(names), 4), frameon=False)
    return figure


def draw_lines(axes: Axes, results: Sequence[Result], way: str, number: int) -> None:
    """One map of one input over time: a line for each model that has it."""
    for result, look in with_looks(results):
        for example in result.examples:
            if example.what == way:
                moments = example.maps[number, :, 0].numpy()
                times = moments_ms(result.main.layers[-1], len(moments))
                axes.plot(
                    times, moments, linestyle=look.dashes, color=look.color, label=result.subject.name, linewidth=1.6
                )


def moments_ms(layer: LayerNumbers, count: int) -> numpy.ndarray:
    """Where a layer's units lie over the spectrogram, whose first frame is drawn from 0 to one hop: (count,)."""
    field = layer.fields.cumulative
    first = field.center[0] - field.units[0][0] * layer.fields.stride
    return (first + numpy.arange(count) * layer.fields.stride + 0.5) * layer.cell
