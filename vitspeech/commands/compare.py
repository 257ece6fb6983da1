"""Compare the receptive fields of models in one report: theoretical, effective, and what the output depends on.

vitspeech compare checkpoints/vit-cifar10 checkpoints/cnn-cifar10 --data ROOT -o report/
vitspeech compare checkpoints/vit-cifar10 timm:resnet18 timm:convnext_atto --data ROOT -o report/
vitspeech compare checkpoints/speech-commands checkpoints/speech-commands-truncated --data ROOT -o report/
vitspeech compare timm:deit_tiny_patch16_224 --pretrained --data holiday/ -o report/

The models must be all for images or all for speech. The inputs are validation items of the data set on the first
released model's card; without such a model, the images of a folder. The report folder gets report.html (one page that
needs no network), a PNG per figure, metrics.json and metrics.csv.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from vitspeech import command_line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech compare`: prints a summary of each model and the report's path."""
    parser = command_line.parser("compare", __doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="folder of a released model or a run, or timm:NAME")
    parser.add_argument("--data", metavar="ROOT", help="folder of the data set, or a folder of images")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="folder of the report")
    parser.add_argument("--inputs", type=int, default=200, help="inputs for the receptive fields (default 200)")
    parser.add_argument("--answers", type=int, default=500, help="inputs for accuracies (default 500)")
    parser.add_argument(
        "--factors",
        type=float,
        nargs="+",
        default=[1.0, 1.5],
        metavar="FACTOR",
        help="input sizes relative to the models' own (default 1 1.5); the report is about the first",
    )
    parser.add_argument("--layers", nargs="+", metavar="NAME", help="only these layers; every model must have them")
    parser.add_argument("--pretrained", action="store_true", help="use timm's weights, which timm downloads")
    parser.add_argument("--size", type=int, metavar="PX", help="image side for timm's networks; default: the others'")
    command_line.add_device(parser, others="")
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    command_line.check_folder(options.output)

    from vitspeech.errors import InputError
    from vitspeech.receptive.compare import Plan, compare
    from vitspeech.receptive.report.page import write_report
    from vitspeech.receptive.report.summary import sentences
    from vitspeech.receptive.sample import sample_for
    from vitspeech.receptive.subjects import subjects_named

    plan = Plan(options.inputs, options.answers, tuple(options.factors), options.layers)
    device = command_line.find_device(options.device)
    if device == "mps":
        raise InputError("--device mps: Apple GPUs have no double precision, which the measures need; choose cpu")
    chosen = {"size": options.size, "pretrained": options.pretrained, "trust": options.trust, "device": device}
    subjects = subjects_named(options.models, **chosen)
    sample = sample_for(subjects, options.data, max(options.inputs, options.answers))
    start = time.perf_counter()
    results = compare(subjects, sample, plan, progress=True)
    page = write_report(results, sample, plan, options.output)
    for result in results:
        print(f"{result.subject.name}: {' '.join(sentences(result))}")
        for measure, reason in result.missing.items():
            print(f"{result.subject.name}: no {measure}: {reason}")
    print(f"{page} ({time.perf_counter() - start:.0f} s)")
