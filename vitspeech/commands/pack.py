"""Pack a data set into a few large files with checksums, or check such a pack.

vitspeech pack CONFIG FOLDER --data.root ROOT
vitspeech pack speech_commands/full packs/speech-commands
vitspeech pack --check packs/speech-commands

CONFIG is a YAML file or the name of a shipped config, of which only `data` is used. Packs can be made of Cifar,
ImageFolder, AudioFolder, SpeechCommands and TranscribedAudio. It has the splits and everything else that training needs; the
folder of the data set is not needed any more:

vitspeech train --config CONFIG --data.storage FOLDER
vitspeech evaluate RUN --data FOLDER

Files are read one by one, so a data set may be larger than the memory. After a kill, the same command goes on with the
first shard that is missing, and the pack has the same bytes.

FOLDER/train-00000-of-00012.arrow, ...   items of the splits train, validation and test (Arrow IPC files), and noise
FOLDER/pack.json                         the data set, its labels, and rows, size and SHA-256 of each file

Every other `--data.KEY VALUE` is an option of `vitspeech train`. With `--data.broken SHARE`, up to this share of a
split's files may be broken; they are left out and listed in pack.json.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vitspeech import command_line
from vitspeech.errors import check_number

OPTIONS = ("--help", "--check", "--workers", "--shard-mb", "--trust")
SMALLEST_MB, LARGEST_MB = 0.001, 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech pack`: prints a line for each split."""
    parser = command_line.parser("pack", __doc__, allow_abbrev=False)
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="file or name of a shipped config")
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of the pack")
    check = "compare the pack in FOLDER with its checksums; pack nothing"
    parser.add_argument("--check", type=Path, metavar="FOLDER", help=check)
    threads = "threads that read files (default: one for each core)"
    parser.add_argument("--workers", type=int, metavar="N", help=threads)
    size = "size of a file in MB, about (default 256)"
    parser.add_argument("--shard-mb", type=float, default=256, metavar="MB", help=size)
    command_line.add_trust(parser)
    own, overrides = split_options(sys.argv[2:] if arguments is None else arguments)
    options = parser.parse_args(own)
    if options.check is not None:
        if options.config or overrides:
            parser.error("--check FOLDER takes no config and no other options")
        from vitspeech.data.storage.checking import check_pack

        pack = check_pack(options.check)
        report(pack, "is as its checksums say")
        return
    if options.config is None or options.folder is None:
        parser.error("name CONFIG and FOLDER (or --check FOLDER)")
    check_number("--shard-mb", options.shard_mb, SMALLEST_MB, LARGEST_MB)
    if options.workers is not None:
        check_number("--workers", options.workers, 1, 1024)
    command_line.check_folder(options.folder, "FOLDER")

    from vitspeech.data.storage.packing import write_pack
    from vitspeech.training.data_set import build_data_set

    data = build_data_set(options.config, overrides, options.trust)
    pack = write_pack(data, options.folder, shard_mb=options.shard_mb, threads=options.workers)
    report(pack, "is complete")


def split_options(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command's own part of a command line, and the options of the config as `--KEY=VALUE`."""
    own, others, remaining = [], [], list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if not argument.startswith("--") or argument.partition("=")[0] in OPTIONS:
            own.append(argument)
        elif "=" in argument or not remaining or remaining[0].startswith("--"):
            others.append(argument)
        else:
            others.append(f"{argument}={remaining.pop(0)}")
    return own, others


def report(pack: Any, state: str) -> None:
    """Print the splits of a pack."""
    for name, split in pack.splits.items():
        size = sum(shard.bytes for shard in split.shards) / 1e6
        broken = sum(len(shard.broken) for shard in split.shards)
        left_out = f", {broken:,} broken files left out" if broken else ""
        print(f"{name}: {split.rows:,} rows in {len(split.shards):,} files, {size:,.1f} MB{left_out}")
    print(f"{pack.folder} {state}")
