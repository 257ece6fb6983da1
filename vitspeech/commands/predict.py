"""Classify images of any size and mode, or recordings at any sample rate.

vitspeech predict checkpoints/vit-cifar10 cat.png holiday/ --top 3 --out out.csv
vitspeech predict checkpoints/vit-cifar10 photos/ --device cuda --out photos.parquet --resume
vitspeech predict checkpoints/speech-commands yes.wav recordings/
vitspeech predict checkpoints/speech-commands yes.wav --attention yes.png

A file that can't be read is reported and left out; the exit status is then 3. A table is moved to its place when
it is complete. Until then its rows are in FILE.partial, and --resume continues from there.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import vitspeech
from vitspeech import command_line

COLUMNS = {"file": "", "rank": "d", "label": "", "probability": ".6f", "status": ""}


def main(arguments: Sequence[str]) -> None:
    """Run `vitspeech predict`: one line per file, or a table."""
    parser = command_line.parser("predict", __doc__)
    add = parser.add_argument
    add("checkpoint", help="folder of a released model or a finished run")
    add("paths", nargs="+", metavar="FILE_OR_FOLDER", help="images or recordings, or folders of them")
    add("--top", type=int, default=3, help="labels per file (default 3)")
    command_line.add_table(parser, COLUMNS)
    add("--attention", type=Path, metavar="PNG", help="draw attention and pooling weights for one file")
    command_line.add_device(parser)
    options = parser.parse_args(arguments)
    if options.top < 1:
        parser.error(f"--top {options.top} is below 1")
    if options.attention and (len(options.paths) > 1 or Path(options.paths[0]).is_dir()):
        parser.error("--attention draws one file: give one, and no folder")
    command_line.check_table(options, options.paths)
    command_line.check_file(options.attention, "--attention", command_line.PICTURES)

    from vitspeech.inference.batches import write_results
    from vitspeech.inference.predict import BATCH

    device = command_line.find_device(options.device)
    model = vitspeech.load(options.checkpoint, trust=options.trust).to(device)
    if options.attention:
        from vitspeech.receptive.heads.figure import check_drawable, draw_attention

        check_drawable(model)
    results = partial(vitspeech.predict, model, options.paths, top=options.top, batch=BATCH)
    if options.out is None:
        unread = command_line.UnreadFiles("predict")
        # Lines on a terminal show progress by themselves.
        for path, labels in results(on_error=unread.add, progress=not sys.stdout.isatty()):
            print(f"{path}: " + ", ".join(f"{label} {probability:.3f}" for label, probability in labels))
    else:
        settings = {"batch": BATCH, "resume": options.resume, "device": device.partition(":")[0], "top": options.top}
        table = (options.out, COLUMNS, table_rows, partial(results, progress=True), model, options.paths)
        unread = write_results(*table, command="predict", **settings)
    unread.exit()
    if options.attention:
        draw_attention(model, Path(options.paths[0]), options.attention)
        print(options.attention)


def table_rows(path: Path, labels: Sequence[tuple[str, float]]) -> list[tuple]:
    """One row per label."""
    return [(path, rank, *label, "ok") for rank, label in enumerate(labels, 1)]
