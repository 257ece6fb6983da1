#!/usr/bin/env python3
"""Measure on this machine; nothing else should run meanwhile.

benchmark.py loader       images/s out of memory, augmentation included
benchmark.py attention    truncated attention beside its peers: time and peak memory against length, JSON and a plot
benchmark.py layer        one layer of full attention at image length beside PyTorch's
benchmark.py vit          a training step of our ViT beside timm's, torchvision's, vit-pytorch's and PyTorch's
benchmark.py speech       log-mel beside torchaudio's, networks from waveform to logits, reading, an hour's stream

Times are medians after a warm-up, the variants interleaved. Peers: pip install -e '.[bench]'.
"""

import argparse
from pathlib import Path

from vitspeech import command_line
from vitspeech.benchmark import attention, layer, loader, speech, vit
from vitspeech.data.files import write_json
from vitspeech.provenance import provenance

RUNS = Path("runs/benchmark")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="what", required=True)

    def subcommand(name: str, **common: object) -> argparse.ArgumentParser:
        form = argparse.ArgumentDefaultsHelpFormatter
        return verbs.add_parser(name, formatter_class=form, help=common["description"], **common)

    loading = subcommand("loader", description="images/s out of memory, augmentation included")
    loading.add_argument("--passes", type=int, default=7, help="passes of each variant")
    loading.add_argument("--images", type=int, default=10_240, help="images a pass")
    loading.add_argument("--json", type=Path, help="write the numbers there, too")

    attending = subcommand("attention", description="truncated attention beside its peers: time and peak memory")
    attending.add_argument("--tokens", type=int, nargs="+", default=[256, 1024, 4096, 16384], help="lengths")
    attending.add_argument("--variants", nargs="+", default=attention.VARIANTS, help="ours and which others")
    attending.add_argument("--heads", type=int, default=4, help="attention heads")
    attending.add_argument("--width", type=int, default=64, help="width of a head")
    attending.add_argument("--left", type=int, default=32, help="past context in tokens")
    attending.add_argument("--right", type=int, default=32, help="look-ahead in tokens")
    attending.add_argument("--patience", type=float, default=60.0, help="slower warm-ups (s) get three repeats only")
    attending.add_argument("--dense-up-to", type=int, default=4096, help="longest T for the dense mask")
    attending.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True, help="peak memory, too")

    single = subcommand("layer", description="one layer of full attention at image length beside PyTorch's")
    single.add_argument("--tokens", type=int, nargs="+", default=[64, 256], help="lengths")
    training = subcommand("vit", description="a training step of our ViT beside its peers' of the same shape")
    training.add_argument("--compile", dest="compiled", action="store_true", help="each compiled, too")
    hearing = subcommand("speech", description="log-mel, networks from waveform to logits, reading, an hour's stream")
    hearing.add_argument("--mels", type=int, default=80, help="mel bins")
    hearing.add_argument("--stream-minutes", type=float, default=60.0, help="sound to stream")
    hearing.add_argument("--checkpoint", help="a released speech model's folder, in place of random networks")

    for verb, batch in ((attending, 4), (single, 128), (training, 128), (hearing, 128)):
        verb.add_argument("--batch", type=int, default=batch, help="sequences, images or clips")
        verb.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"], help="fp32, bf16 or both")
        verb.add_argument("--repeats", type=int, default=7, help="runs of each after its warm-up")
        verb.add_argument("--device", default="cpu", help="cpu or cuda")
        verb.add_argument("--json", type=Path, default=RUNS / f"{verb.prog.split()[-1]}.json", help="written in parts")

    options = vars(parser.parse_args())
    what, path = options.pop("what"), options.pop("json")
    if what == "loader":
        rates = loader.benchmark(**options, batch=512)
        print(loader.table(rates))
        if path:
            write_json({"loader": rates, **provenance()}, path)
    elif what == "attention":
        print(attention.tables(attention.benchmark(attention.Settings(**options), path)))
        print(f"\n{path}, {path.with_suffix('.png')}")
    else:
        room = {"layer": layer, "vit": vit, "speech": speech}[what]
        print(f"{room.table(room.benchmark(room.Settings(**options), path))}\n\n{path}")


if __name__ == "__main__":
    command_line.run(main)
