"""Measure speed and memory on this machine; nothing else should run meanwhile.

vitspeech benchmark loader       data loading from memory with augmentation, images/s
vitspeech benchmark data         reading from memory, files and packs beside torchvision; memory and start-up by items
vitspeech benchmark attention    truncated attention against other implementations: time and peak memory by length
vitspeech benchmark layer        one layer of full attention at image length against PyTorch's
vitspeech benchmark vit          one training step of the ViT against timm, torchvision, vit-pytorch and PyTorch
vitspeech benchmark speech       log-mel against torchaudio, networks from waveform to logits, reading, streaming
vitspeech benchmark export       exported graphs beside torch: a stream on one core, pictures

Times are medians after a warm-up, with the variants interleaved. The other implementations are the extra `bench`.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from vitspeech import command_line

RUNS = Path("runs/benchmark")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech benchmark`: prints a table, and writes JSON (and for `attention` a plot)."""
    options = vars(parser().parse_args(arguments))
    name, path = options.pop("benchmark"), options.pop("json")

    from vitspeech.files import write_json
    from vitspeech.provenance import provenance

    module = import_module(f"vitspeech.benchmark.{name}")
    if name == "loader":
        rates = module.benchmark(**options, batch=512)
        print(module.table(rates))
        if path:
            write_json({"loader": rates, **provenance()}, path)
    elif name == "attention":
        print(module.tables(module.benchmark(module.Settings(**options), path)))
        print(f"\n{path}, {path.with_suffix('.png')}")
    else:
        print(f"{module.table(module.benchmark(module.Settings(**options), path))}\n\n{path}")


def parser() -> argparse.ArgumentParser:
    """The parser of all benchmarks."""
    parser = command_line.parser("benchmark", __doc__)
    benchmarks = parser.add_subparsers(dest="benchmark", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        form = argparse.ArgumentDefaultsHelpFormatter
        return benchmarks.add_parser(name, formatter_class=form, help=text, description=text)

    loader = add("loader", "data loading from memory with augmentation, images/s")
    loader.add_argument("--passes", type=int, default=7, help="passes of each variant")
    loader.add_argument("--images", type=int, default=10_240, help="images per pass")
    loader.add_argument("--json", type=Path, help="write the numbers to this file as well")

    data = add("data", "reading from memory, files and packs beside torchvision; memory and start-up by items")
    data.add_argument("--items", type=int, default=4000, help="files of each set")
    data.add_argument("--batch", type=int, default=128, help="items per batch")
    data.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="worker processes")
    data.add_argument("--repeats", type=int, default=5, help="epochs of each variant after its warm-up")
    sizes = "numbers of items whose memory and start-up are measured"
    data.add_argument("--indices", type=int, nargs="+", default=[10_000, 1_000_000, 10_000_000], help=sizes)
    data.add_argument("--json", type=Path, default=RUNS / "data.json", help="written after each part")

    attention = add("attention", "truncated attention against other implementations: time and peak memory")
    attention.add_argument("--tokens", type=int, nargs="+", default=[256, 1024, 4096, 16384], help="lengths")
    names = "implementations to measure besides ours (default: all)"
    attention.add_argument("--variants", nargs="+", default=argparse.SUPPRESS, help=names)
    attention.add_argument("--heads", type=int, default=4, help="attention heads")
    attention.add_argument("--width", type=int, default=64, help="width of one head")
    attention.add_argument("--left", type=int, default=32, help="past context in tokens")
    attention.add_argument("--right", type=int, default=32, help="look-ahead in tokens")
    attention.add_argument("--patience", type=float, default=60.0, help="variants slower than this (s) run three times")
    attention.add_argument("--dense-up-to", type=int, default=4096, help="greatest length for the dense mask")
    memory = argparse.BooleanOptionalAction
    attention.add_argument("--memory", action=memory, default=True, help="measure peak memory as well")

    layer = add("layer", "one layer of full attention at image length against PyTorch's")
    layer.add_argument("--tokens", type=int, nargs="+", default=[64, 256], help="lengths")
    vit = add("vit", "one training step of the ViT against other implementations of the same shape")
    vit.add_argument("--compile", dest="compiled", action="store_true", help="measure each compiled as well")
    speech = add("speech", "log-mel, networks from waveform to logits, reading, streaming")
    speech.add_argument("--mels", type=int, default=80, help="mel bins")
    speech.add_argument("--stream-minutes", type=float, default=60.0, help="minutes of audio to stream")
    speech.add_argument("--checkpoint", help="folder of a released speech model, instead of random networks")

    exported = add("export", "exported graphs in ONNX Runtime beside torch, on one core: a stream, pictures")
    of_speech = {"metavar": "MODEL", "default": "checkpoints/speech-commands-truncated"}
    exported.add_argument("--speech", **of_speech, help="a speech model that can be streamed")
    of_images = {"metavar": "MODEL", "default": ["checkpoints/vit-cifar10", "checkpoints/cnn-cifar10"]}
    exported.add_argument("--images", nargs="*", **of_images, help="image models")
    exported.add_argument("--batches", type=int, nargs="+", default=[1, 64], help="pictures per call")
    exported.add_argument("--seconds", type=float, default=20.0, help="seconds of noise to stream")
    exported.add_argument("--repeats", type=int, default=7, help="runs of each after its warm-up")
    compiled = "measure image models compiled by torch as well, which needs a C++ compiler"
    exported.add_argument("--compile", dest="compiled", action=memory, default=True, help=compiled)
    exported.add_argument("--json", type=Path, default=RUNS / "export.json", help="written after each part")

    for benchmark, batch in ((attention, 4), (layer, 128), (vit, 128), (speech, 128)):
        path = RUNS / f"{benchmark.prog.split()[-1]}.json"
        benchmark.add_argument("--batch", type=int, default=batch, help="sequences, images or clips per batch")
        benchmark.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"], help="fp32, bf16 or both")
        benchmark.add_argument("--repeats", type=int, default=7, help="runs of each after its warm-up")
        benchmark.add_argument("--device", default="cpu", help="cpu or cuda")
        benchmark.add_argument("--json", type=Path, default=path, help="written after each part")
    return parser
