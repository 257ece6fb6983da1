"""Some inputs, and what each model sees in them, laid over the picture or under the spectrogram.

Shapes: K inputs, R rows, W columns of the source, T tokens, F log-mel frames, M mel bins.
"""

from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from torch import Tensor

from vitspeech.receptive.comparison import Result
from vitspeech.receptive.examples import Example
from vitspeech.receptive.figures import COLOURS, Drawn
from vitspeech.receptive.sample import Sample

WAYS = {
    "field": "effective field of the middle unit of the last layer (root, of its largest value)",
    "rollout": "rollout of attention (Abnar and Zuidema 2020)",
    "relevance": "gradient-weighted relevance of the label given (Chefer et al. 2021)",
}
SHORT = {"field": "field", "rollout": "rollout", "relevance": "relevance"}
SEEN = LinearSegmentedColormap.from_list("seen", [to_rgba("#D55E00", 0), to_rgba("#D55E00", 0.9)])  # clear to orange


def draw_examples(results: Sequence[Result], sample: Sample) -> Drawn:
    """Pictures with maps laid over them, or spectrograms with maps over time under them.

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
        caption = f"Under each spectrogram, over time, how much of its largest value each model has there. {ways}."
    else:
        figure = draw_pictures(shown, sample)
        caption = f"Orange is where a model looks, clear is where it does not, each of its own largest value. {ways}."
    return Drawn(figure, "What they see in single inputs", caption)


def draw_pictures(results: Sequence[Result], sample: Sample) -> Figure:
    """A row an input: the picture, then each model's maps over it in grey."""
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
    """One map over a grey picture, both as large as the map."""
    seen = example.maps[number].numpy()
    edge = (-0.5, seen.shape[1] - 0.5, seen.shape[0] - 0.5, -0.5)
    axes.imshow(picture.mean(2), cmap="gray", extent=edge, vmin=0, vmax=255)
    axes.imshow(seen, cmap=SEEN, vmin=0, vmax=1, extent=edge, interpolation="nearest")
    if example.labels is not None and example.what == "field":
        axes.set_xlabel(example.labels[number], fontsize=8)


def draw_clips(results: Sequence[Result], sample: Sample) -> Figure:
    """A column an input: the spectrogram, then a panel for each way of looking, with a line a model."""
    ways = [way for way in WAYS if any(example.what == way for result in results for example in result.examples)]
    count = len(results[0].examples[0].maps)
    figure = Figure(figsize=(3.1 * count, 2.2 + 1.6 * len(ways)), layout="constrained")
    heights = [1.4, *(1 for _ in ways)]
    panels = figure.subplots(1 + len(ways), count, squeeze=False, sharex=True, sharey="row", height_ratios=heights)
    log_mel = results[0].subject.network(trained=results[0].subject.trained).tokens.log_mel
    frames = log_mel(results[0].subject.inputs(sample.raw[:count])).numpy()
    hop_ms = results[0].main.layers[0].cell
    for number in range(count):
        panels[0][number].imshow(
            frames[number].T,
            origin="lower",
            aspect="auto",
            cmap="gray_r",
            extent=(0, frames.shape[1] * hop_ms, 0, frames.shape[2]),
        )
        word = "" if sample.labels is None else f"“{sample.names[sample.labels[number]]}”"
        panels[0][number].set_title(word, fontsize=10)
        for axes, way in zip(panels[1:, number], ways, strict=True):
            draw_lines(axes, results, way, number)
            axes.set_ylim(0, 1.05)
            axes.grid(alpha=0.3)
        panels[-1][number].set_xlabel("time (ms)")
    panels[0][0].set_ylabel("mel bin")
    for axes, way in zip(panels[1:, 0], ways, strict=True):
        axes.set_ylabel(f"{SHORT[way]}\n(of its largest)")
    lines, names = panels[1][0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=min(len(names), 4), frameon=False)
    return figure


def draw_lines(axes: Axes, results: Sequence[Result], way: str, number: int) -> None:
    """One way of looking at one input over time: a line for each model that has it."""
    for result, (colour, dashes) in zip(results, COLOURS, strict=False):
        for example in result.examples:
            if example.what == way:
                moments = over_time(example.maps[number])
                stride = result.main.layers[0].cell if way == "field" else result.main.layers[-1].stride
                times = (numpy.arange(len(moments)) + 0.5) * stride
                axes.plot(times, moments, dashes, color=colour, label=result.subject.name, linewidth=1.6)


def over_time(seen: Tensor) -> numpy.ndarray:
    """A map's share over time, of its largest value: (F, M) or (T, 1) -> (F,) or (T,)."""
    moments = seen.square().sum(1).sqrt() if seen.shape[1] > 1 else seen[:, 0]
    return (moments / moments.max().clamp(min=1e-30)).numpy()
