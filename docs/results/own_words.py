"""Spotters of five own words from 0, 10, 20 and 50 recordings of each: accuracy, unknown words, false alarms.

python docs/results/own_words.py SPEECH_COMMANDS LIBRISPEECH -o FOLDER --init_from checkpoints/keywords-12

SPEECH_COMMANDS is the folder of its words, LIBRISPEECH one of continuous speech. The words are ones that the released
spotter knows as `unknown` only. Each spotter is trained as docs/guides/words.md says: on synthesized voices, on
continuous speech by training speakers, and on recordings by so many training speakers, one each. They are tested on all
test recordings of the words, and on test recordings of other words. `vitspeech tune` chooses thresholds on validation,
`vitspeech spot` measures misses and false alarms. What is finished is not done again. Arguments after `--` go to
`vitspeech train`.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import vitspeech
from vitspeech.data.audio.reading import read_clips
from vitspeech.data.clips.folder import word_recordings
from vitspeech.data.clips.silence import SILENCE, UNKNOWN
from vitspeech.files import read_json, write_json
from vitspeech.metrics.intervals import bootstrap_ratio_interval

WORDS, COUNTS, OTHERS = ("yes", "no", "stop", "two", "four"), (0, 10, 20, 50), 1500


def main() -> None:
    """Train, test and tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", type=Path)
    parser.add_argument("speech", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--init_from")
    parser.add_argument("--words", dest="own", nargs="+", default=WORDS, help="the own words")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--clips", default="500", help="of the words, and of other words, for `vitspeech spot`")
    parser.add_argument("--alarms-per-hour", default="10", help="that thresholds are chosen for, on validation")
    parser.add_argument("--no-spot", action="store_true")
    options, training = parser.parse_known_args()
    splits = word_recordings(options.words)
    rows = []
    for count in options.counts:
        run = options.output / f"{count}-recordings"
        if not (run / "model").is_dir():
            recordings = prepare(splits, options.own, count, options.output / f"recordings-{count}") if count else None
            train(options, run, recordings, [argument for argument in training if argument != "--"])
        if not (run / "own_words.json").exists():
            write_json(accuracies(run, splits, options.own), run / "own_words.json")
        report = options.output / f"spot-{count}"
        if not options.no_spot and not (report / "summary.json").exists():
            folders = ["--keywords", options.words, "--speech", options.speech, "--clips", options.clips]
            call("tune", run, "--alarms-per-hour", options.alarms_per_hour, *folders)
            call("spot", run, *folders, "-o", report)
        rows.append((count, read_json(run / "own_words.json")))
    for count, found in rows:
        print(count, json.dumps(found))


def prepare(splits: dict, words: Sequence[str], count: int, folder: Path) -> Path:
    """A folder of links to `count` training recordings of each word, by other speakers, and to all held-out ones."""
    for split, items in splits.items():
        for word in words:
            chosen = sorted((item for item in items if item.label == word), key=lambda item: item.file.name)
            if split == "train":
                random.Random(word).shuffle(chosen)
                chosen = list({item.speaker: item for item in chosen}.values())[:count]
            (folder / split / word).mkdir(parents=True, exist_ok=True)
            for item in chosen:
                link = folder / split / word / item.file.name
                if not link.exists():
                    link.symlink_to(item.file.resolve())
    return folder


def train(options: argparse.Namespace, run: Path, recordings: Path | None, training: list[str]) -> None:
    """Train one spotter."""
    arguments = ["--config", "own_words", "--data.words", json.dumps(options.own), "--data.root", "/", "--run", run]
    arguments += ["--data.speech", options.speech.resolve()]
    arguments += ["--data.recordings", recordings.resolve()] if recordings else []
    arguments += ["--init_from", options.init_from] if options.init_from else []
    call("train", *arguments, "--trainer.enable_progress_bar", "false", *training)


def call(*arguments: object) -> None:
    """Run a command of vitspeech."""
    subprocess.run([sys.executable, "-m", "vitspeech", *map(str, arguments)], check=True)


def accuracies(run: Path, splits: dict, words: Sequence[str]) -> dict[str, object]:
    """The accuracy on test recordings of the words, the same among the words alone, and on other words."""
    model = vitspeech.load(run)
    items = [item for item in splits["test"] if item.label in words]
    others = sorted((item for item in splits["test"] if item.label not in words), key=lambda item: item.file.name)
    others = random.Random(0).sample(others, min(OTHERS, len(others)))
    labels = torch.tensor([model.labels.index(item.label) for item in items])
    logits, other_logits = outputs(model, items), outputs(model, others)
    is_hit = logits.argmax(1) == labels
    rest = torch.tensor([model.labels.index(label) for label in (UNKNOWN, SILENCE)])
    # The same rate for all: the probability that a word must have so that 5 % of the other words are taken for one.
    threshold = other_logits.softmax(1)[:, : len(words)].max(1).values.quantile(0.95)
    probabilities, best = logits.softmax(1)[:, : len(words)].max(1)
    return {
        "words": share(is_hit, items),
        "words_alone": share(logits[:, : len(words)].argmax(1) == labels, items),
        "unknown": share(torch.isin(other_logits.argmax(1), rest), others),
        "words_at_5_percent_of_others": share((best == labels) & (probabilities > threshold), items),
        "by_word": {word: is_hit[labels == model.labels.index(word)].float().mean().item() for word in words},
    }


def share(is_hit: torch.Tensor, items: list) -> list[float]:
    """The share of hits, its 95 % interval over speakers, and the number of clips."""
    hits, groups = is_hit.double(), [item.speaker or str(item.file) for item in items]
    low, high = bootstrap_ratio_interval(hits, torch.ones_like(hits), resamples=2000, groups=groups)
    return [hits.mean().item(), float(low), float(high), len(items)]


@torch.inference_mode()
def outputs(model: vitspeech.Model, items: list) -> torch.Tensor:
    """The logits of recordings: (items, labels)."""
    clips = read_clips([item.file for item in items], 16_000)
    return torch.cat([model.network(part / 32768) for part in clips.split(100)])


if __name__ == "__main__":
    main()
