"""The test clips that every one of some models gets wrong: python docs/results/misclassified.py ROOT FIGURE TABLE ...

A table is what `vitspeech evaluate MODEL --data ROOT --out TABLE` writes for a model of Speech Commands, as CSV. FIGURE
shows a clip of each of the speakers with the most of these clips.
"""

import csv
import sys
from collections import Counter, defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from vitspeech.data.audio.reading import read_clip
from vitspeech.data.clips.noise import rms
from vitspeech.data.clips.speech_commands import FOLDER, URL, speaker
from vitspeech.frontends import LogMel
from vitspeech.plots.style import SPECTROGRAM

RATE_HZ, FRAME, SHOWN = 16_000, 400, 12
LEVELS_DBFS = (-60, -50, -40, -30)


def main(root: str, figure: str, *tables: str) -> None:
    """Print how many clips are wrong in all tables, of which speakers and how loud they are; draw some."""
    answers = defaultdict(list)
    for table in tables:
        with Path(table).open(newline="") as file:
            for row in csv.DictReader(file):
                if row["name"] and row["label"] != "unknown":
                    answers[row["name"], row["label"]].append(row["prediction"])
    counts = Counter(sum(answer != label for answer in some) for (_, label), some in answers.items())
    print(f"{len(answers)} clips of words; by the number of models that are wrong: {dict(sorted(counts.items()))}")
    wrong = {name: some for (name, label), some in answers.items() if label not in some}
    by_speaker = defaultdict(list)
    for name in wrong:
        by_speaker[speaker(Path(name))].append(name)
    order = sorted(by_speaker, key=lambda one: -len(by_speaker[one]))
    print(f"{len(wrong)} clips of {len(order)} speakers are wrong in all models")
    print("; ".join(f"{one} {len(by_speaker[one])}" for one in order[:SHOWN]))
    waveforms = {name: read_clip(Path(root, FOLDER, URL, name), RATE_HZ) / 32768 for name in wrong}
    levels = torch.tensor([level_dbfs(waveform) for waveform in waveforms.values()])
    print("; ".join(f"below {level} dBFS: {int((levels < level).sum())}" for level in LEVELS_DBFS))
    shown = [by_speaker[one][0] for one in order[:SHOWN]]
    draw({name: (waveforms[name], Counter(wrong[name]).most_common(1)[0][0]) for name in shown}, Path(figure))


def level_dbfs(waveform: Tensor) -> float:
    """The root mean square of the loudest 25 ms of a clip (N,), in decibels of full scale."""
    frames = waveform[: len(waveform) // FRAME * FRAME].view(-1, FRAME)
    return 20 * rms(frames).amax().log10().item()


def draw(clips: dict[str, tuple[Tensor, str]], file: Path) -> None:
    """Draw the spectrogram of each clip, whose title is its word and the most frequent answer."""
    log_mel = LogMel(epsilon=1e-9)
    grid, axes = plt.subplots(3, SHOWN // 3, figsize=(11, 7), layout="constrained", sharex=True)
    for axis, (name, (waveform, answer)) in zip(axes.flat, clips.items(), strict=False):
        energies = log_mel(waveform[None])[0].T.numpy()
        highest = energies.max()
        extent = (0, len(waveform) / RATE_HZ, 0, len(energies))
        shades = {"cmap": SPECTROGRAM, "vmin": highest - 14, "vmax": highest}  # 60 dB
        axis.imshow(energies, aspect="auto", origin="lower", extent=extent, **shades)
        axis.set_title(f"“{Path(name).parent.name}”, taken for {answer}\n{speaker(Path(name))}", fontsize=9)
        axis.set(yticks=[], xlim=(0, 1))
    for axis in axes.flat[len(clips) :]:
        axis.set_axis_off()
    grid.supxlabel("seconds")
    grid.supylabel("mel bin")
    grid.savefig(file, dpi=90)


if __name__ == "__main__":
    main(*sys.argv[1:])
