"""Write a data set into a pack: large files that are read in place, for data that does not fit into memory.

vitspeech pack speech_commands/truncated /fast/commands --data.root /slow
vitspeech train --config speech_commands/truncated --data.storage /fast/commands
vitspeech pack --check /fast/commands

The first argument is a config, of which only `data` matters; --data.KEY VALUE overrides a key. Run the same command
again to resume after an interruption.
"""

from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line

SHARD_MB = 256


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech pack`: prints what the pack holds."""
    parser = command_line.parser(
        "pack", __doc__, usage="%(prog)s CONFIG FOLDER [options]\n       %(prog)s --check FOLDER"
    )
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="name or file of a config, as for vitspeech train")
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of the pack")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="compare a pack with its checksums instead")
    parser.add_argument("--shard-mb", type=float, default=SHARD_MB, help=f"size of a file in MiB (default {SHARD_MB})")
    parser.add_argument("--workers", type=int, default=4, help="threads that read items (default 4)")
    command_line.add_trust(parser)
    options, overrides = parser.parse_known_args(arguments)
    wrong = [name for name in overrides if name.startswith("-") and not name.startswith("--data")]
    if wrong or bool(options.check) == bool(options.folder) or (options.check and options.config):
        parser.error(f"unknown: {wrong[0]}" if wrong else "give a config and a folder, or --check and a folder")
    if options.workers < 1 or not options.shard_mb > 0:
        parser.error("--workers and --shard-mb must be above 0")

    if options.check:
        from vitspeech.data.storage.pack import check_pack

        print(f"{options.check}: {check_pack(options.check):,} items, as they were written")
        return
    command_line.check_folder(options.folder, "FOLDER")

    import yaml

    from vitspeech.data.module import FILES, MEMORY
    from vitspeech.data.storage.pack import pack
    from vitspeech.data.storage.packed import Pack
    from vitspeech.errors import InputError
    from vitspeech.training.run_folder import test_set
    from vitspeech.training.train import TrainingCLI

    trust = [f"--trust={name}" for name in options.trust]
    cli = TrainingCLI([f"--config={options.config}", *trust, *overrides])
    data = cli.datamodule
    if "storage" not in cli.config.data.init_args:
        raise InputError(f"{type(data).__name__} has no argument `storage`: its items need no pack")
    if data.pack is not None:
        raise InputError(f"storage={data.storage}: is already a pack; add --data.storage memory to read the files")
    if data.storage == MEMORY and data.reads_files:
        data.storage, data.checks_files = FILES, False  # each is read once, item by item
    source = test_set(yaml.safe_load(cli.resolved_config())["data"])
    pack(data, options.folder, source, shard_mb=options.shard_mb, workers=options.workers)
    splits = Pack(options.folder).description["splits"]
    counts = [f"{sum(shard['items'] for shard in shards):,} {split}" for split, shards in splits.items()]
    size = sum(file.stat().st_size for file in options.folder.iterdir())
    print(f"{options.folder}: {', '.join(counts)} {data.items}, {size / 2**20:,.0f} MiB")
    print(f"to train on it: vitspeech train --config {options.config} --data.storage {options.folder}")
