#!/usr/bin/env python3
"""Whether `unknown` is learned from the codec: the same test clips before and after coding at a lower bit rate.

python docs/results/codec.py FOLDER MODEL [MODEL ...] [--kilobits 15] [--clips N]

FOLDER has one folder per word, of clips that are all coded at the same, higher bit rate: the smaller set of Speech
Commands. The test clips are coded as Opus (Ogg, 50 clips a file) and decoded. The table has, for the words of the model
and for all other words, the share recognized right (others as `unknown`), the share taken for `unknown`, and the mean
probability of `unknown`: before, after, and their difference with a 95 % interval over speakers.
"""

import argparse
import io
from pathlib import Path

import numpy
import soundfile
import torch
from torch import Tensor
from tqdm import tqdm

import vitspeech
from vitspeech.checkpoint import Model
from vitspeech.data.audio.reading import read_clips
from vitspeech.data.clips.folder import word_recordings
from vitspeech.data.clips.speech_commands import SILENCE, UNKNOWN
from vitspeech.data.labeled_files import LabeledFile
from vitspeech.metrics.intervals import bootstrap_ratio_interval

RATE_HZ, AT_ONCE, RESAMPLES = 16_000, 50, 2000


def main() -> None:
    """Print the bit rate, and a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--kilobits", type=float, default=15.0, help="per second of audio (5 to 25, default 15)")
    parser.add_argument("--clips", type=int, help="at most so many clips of each word (default: all)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tests, recordings = word_recordings(options.folder)["test"], []
    for word in sorted({item.label for item in tests}):
        recordings += [item for item in tests if item.label == word][: options.clips]
    clips = read_clips([item.file for item in recordings], RATE_HZ, sample_rate_hz=RATE_HZ)
    coded, kilobits = recoded(clips, options.kilobits)
    print(f"{len(clips)} clips of {len({item.speaker for item in recordings})} speakers, {kilobits:.1f} kbit/s")
    for name in options.models:
        model = vitspeech.load(name)
        print(f"\n{name}\n\n| clips | | before | after | difference |\n| --- | --- | --- | --- | --- |")
        before, after = (probabilities(model, some) for some in (clips, coded))
        words = set(model.labels) - {UNKNOWN, SILENCE}
        for title, is_chosen in (("words", True), ("other words", False)):
            chosen = torch.tensor([(item.label in words) == is_chosen for item in recordings])
            if chosen.any():
                items = [item for item, has in zip(recordings, chosen.tolist(), strict=True) if has]
                print_rows(title, model, items, before[chosen], after[chosen])


def print_rows(title: str, model: Model, items: list[LabeledFile], before: Tensor, after: Tensor) -> None:
    """Print what becomes of clips: probabilities before and after (N, C)."""
    unknown = model.labels.index(UNKNOWN)
    labels = torch.tensor([model.labels.index(item.label) if item.label in model.labels else unknown for item in items])
    measures = {
        "right": lambda rows: (rows.argmax(1) == labels).double(),
        "taken for `unknown`": lambda rows: (rows.argmax(1) == unknown).double(),
        "mean probability of `unknown`": lambda rows: rows[:, unknown].double(),
    }
    if (labels == unknown).all():
        del measures["right"]  # the same as the next one
    for name, measure in measures.items():
        one, other = measure(before), measure(after)
        groups = [item.speaker for item in items]
        low, high = bootstrap_ratio_interval(other - one, torch.ones_like(one), resamples=RESAMPLES, groups=groups)
        shares = f"{100 * one.mean():.2f} % | {100 * other.mean():.2f} %"
        difference = f"{100 * (other - one).mean():+.2f} ({100 * low:+.2f} to {100 * high:+.2f})"
        print(f"| {len(items)} {title} | {name} | {shares} | {difference} |")


@torch.inference_mode()
def probabilities(model: Model, clips: Tensor) -> Tensor:
    """The probabilities of clips, int16 (N, samples) -> (N, C)."""
    parts = [model.network(part / 32768).softmax(1) for part in clips.split(100)]
    return torch.cat(parts)


def recoded(clips: Tensor, kilobits: float) -> tuple[Tensor, float]:
    """Code clips as Opus and decode them, int16 (N, samples) -> (N, samples), kilobits per second.

    libsndfile's compression level sets a bit rate, between about 5 and 25 here; some of the clips show which.
    """
    lowest, highest = 0.9, 1.0
    for _ in range(5):
        level = (lowest + highest) / 2
        reached = coded_part(clips[:: max(len(clips) // AT_ONCE, 1)][:AT_ONCE].numpy(), level)[1]
        lowest, highest = (level, highest) if reached > kilobits else (lowest, level)
    parts = [coded_part(part.numpy(), level) for part in tqdm(clips.split(AT_ONCE), "coding", leave=False)]
    seconds = clips.numel() / RATE_HZ
    total = sum(rate * samples.size / RATE_HZ for samples, rate in parts)
    return torch.from_numpy(numpy.concatenate([samples for samples, _ in parts])), total / seconds


def coded_part(clips: numpy.ndarray, level: float) -> tuple[numpy.ndarray, float]:
    """Code clips as one file: int16 (N, samples) -> (N, samples), kilobits per second."""
    file = io.BytesIO()
    options = {"format": "OGG", "subtype": "OPUS", "compression_level": level}
    soundfile.write(file, clips.reshape(-1), RATE_HZ, **options)
    kilobits = file.tell() * 8 / 1000 / (clips.size / RATE_HZ)
    file.seek(0)
    samples = soundfile.read(file, dtype="int16")[0]
    if samples.size != clips.size:
        raise SystemExit(f"{samples.size} samples of {clips.size} came back")
    return samples.reshape(clips.shape), kilobits


if __name__ == "__main__":
    main()
