"""Draw the cross-attention of several runs of sequence tasks side by side, each on one sequence.

python docs/results/sequence_tasks.py docs/images/sequence-tasks.png copy=runs/copy:31415926 add=runs/add:305+78
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

import vitspeech
from vitspeech.inference.transcribe import read_symbols
from vitspeech.plots.cross_attention import Alignment, align_symbols, draw_alignment
from vitspeech.plots.style import plain


def main(output: str, *runs: str) -> None:
    """Draw runs that are given as TITLE=FOLDER:SYMBOLS."""
    alignments = {}
    for title, _, rest in (run.partition("=") for run in runs):
        folder, _, text = rest.rpartition(":")
        model = vitspeech.load(folder)
        (transcript,) = vitspeech.transcribe_symbols(model, [text])
        symbols = model.preprocessing["symbols"]
        indices = read_symbols(text, symbols)
        alignments[title] = align_symbols(model.network, symbols, model.labels, indices, transcript.indices)
        print(f"{title}: {text} -> {transcript.text}")
    draw_side_by_side(alignments, Path(output))


def draw_side_by_side(alignments: Mapping[str, Alignment], output: Path) -> None:
    """Draw one map for each network, with its title: the mean over heads in the last block."""
    figure = Figure(figsize=(2.7 * len(alignments) + 0.8, 3.1), layout="constrained")
    panels = figure.subplots(1, len(alignments), squeeze=False)[0]
    for axes, (title, alignment) in zip(panels, alignments.items(), strict=True):
        image = draw_alignment(axes, alignment, alignment.weights[-1].mean(0))
        axes.set_title(plain(title), fontsize=10)
        axes.set_xlabel("input", fontsize=9)
    panels[0].set_ylabel("output, then the end", fontsize=9)
    figure.colorbar(image, ax=panels, label="attention weight", fraction=0.02, pad=0.01, aspect=30)
    figure.savefig(output, dpi=110, format=output.suffix[1:] or "png")


if __name__ == "__main__":
    main(*sys.argv[1:])
