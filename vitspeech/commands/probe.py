"""Train networks on images whose label depends on two marks, and plot accuracy against the distance of the marks.

vitspeech probe --distances 5 7 9 11 13 -o runs/probe
vitspeech probe --configs two_marks/vit two_marks/vit-without-attention --seeds 3 -o runs/probe
vitspeech probe -o runs/probe-few --data.init_args.count=1000                   # fewer training images

The output folder gets one run per config, distance and seed, probe.json and probe.png. The same command resumes an
interrupted probe. Other arguments override every run's config, as for `vitspeech train`.
"""

from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech probe`: prints a table of accuracies."""
    parser = command_line.parser("probe", __doc__, allow_abbrev=False)
    configs = "files or names of shipped configs; default: two_marks/vit two_marks/cnn"
    default = ["two_marks/vit", "two_marks/cnn"]
    parser.add_argument("--configs", nargs="+", default=default, metavar="CONFIG", help=configs)
    parser.add_argument(
        "--distances",
        type=float,
        nargs="+",
        default=[5, 7, 9, 11, 13],
        metavar="PX",
        help="distances of the marks, 5 to 13 px; default: 5 7 9 11 13",
    )
    parser.add_argument("--seeds", type=int, default=1, help="runs per config and distance; default: 1")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder of the results")
    command_line.add_trust(parser)
    options, overrides = parser.parse_known_args(arguments)
    command_line.check_folder(options.output)

    from vitspeech.training.config import find_config
    from vitspeech.training.probe import probe_distance

    report = probe_distance(
        [find_config(config) for config in options.configs],
        options.distances,
        options.output,
        seeds=options.seeds,
        overrides=overrides,
        trust=options.trust,
        note=lambda text: print(f"\n{text}", flush=True),
    )
    print(f"\n{'config':24}{'distance (px)':>14}{'seed':>6}{'accuracy (%)':>14}")
    for row in report["rows"]:
        print(f"{row['config']:24}{row['distance_px']:14g}{row['seed']:6}{100 * row['accuracy']:14.1f}")
    print(f"\n{options.output / 'probe.json'}, {options.output / 'probe.png'}")
