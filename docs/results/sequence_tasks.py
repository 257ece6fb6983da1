"""Draw the cross-attention of several runs of sequence tasks side by side, each on one sequence.

python docs/results/sequence_tasks.py docs/images/sequence-tasks.png copy=runs/copy:31415926 add=runs/add:305+78
"""

import sys
from pathlib import Path

import vitspeech
from vitspeech.inference.symbols import read_symbols
from vitspeech.plots.cross_attention import align_symbols, draw_side_by_side


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


if __name__ == "__main__":
    main(*sys.argv[1:])
