#!/usr/bin/env python3
"""Train networks on pictures whose label depends on two marks, and draw accuracy against the marks' distance.

probe_distance.py --distances 5 7 9 11 13 -o runs/probe
probe_distance.py --configs configs/two_marks/*.yaml --seeds 3 -o runs/probe    # and the control: no attention
probe_distance.py -o runs/probe-few --data.init_args.count=1000                 # trained on fewer pictures

Leaves a run for each config, distance and seed, probe.json and probe.png in the folder. The same command again goes on
where an interrupted one stopped. Arguments not listed here override every run's config, as on train.py's command line.
"""

import argparse
from pathlib import Path

from vitspeech import command_line

CONFIGS = Path(__file__).resolve().parent.parent / "configs" / "two_marks"


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    known = "default: configs/two_marks/vit.yaml and cnn.yaml"
    default = [CONFIGS / "vit.yaml", CONFIGS / "cnn.yaml"]
    parser.add_argument("--configs", type=Path, nargs="+", default=default, metavar="CONFIG", help=known)
    parser.add_argument(
        "--distances",
        type=float,
        nargs="+",
        default=[5, 7, 9, 11, 13],
        metavar="PX",
        help="between the marks, 5 to 13 px; default: 5 7 9 11 13",
    )
    parser.add_argument("--seeds", type=int, default=1, help="runs of each; default: 1")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="where it all goes")
    arguments, overrides = parser.parse_known_args()

    from vitspeech.training.probe import probe_distance

    options = {"seeds": arguments.seeds, "overrides": overrides, "note": lambda text: print(f"\n{text}", flush=True)}
    report = probe_distance(arguments.configs, arguments.distances, arguments.output, **options)
    print(f"\n{'config':24}{'distance (px)':>14}{'seed':>6}{'accuracy (%)':>14}")
    for row in report["rows"]:
        print(f"{row['config']:24}{row['distance_px']:14g}{row['seed']:6}{100 * row['accuracy']:14.1f}")
    print(f"\n{arguments.output / 'probe.json'}, {arguments.output / 'probe.png'}")


if __name__ == "__main__":
    command_line.run(main)
