"""Copy a sample recording (the words left, right, go) and two sample images (a cat, a horse) into a folder.

vitspeech samples
vitspeech samples examples/
"""

from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line
from vitspeech.samples import copy_samples


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech samples`: prints the copies' paths and two commands to try."""
    parser = command_line.parser("samples", __doc__)
    folder = "folder for the copies (default: samples)"
    parser.add_argument("folder", nargs="?", type=Path, default=Path("samples"), metavar="FOLDER", help=folder)
    options = parser.parse_args(arguments)
    paths = copy_samples(options.folder)
    print("\n".join(map(str, paths)))
    recording, cat, horse, _ = paths
    print("\nTo try, with released models in checkpoints/:")
    print(f"  vitspeech stream checkpoints/speech-commands-truncated {recording}")
    print(f"  vitspeech predict checkpoints/vit-cifar10 {cat} {horse}")
