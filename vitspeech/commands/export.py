"""Write a released model or a finished run as an ONNX graph, with a runner that needs numpy and ONNX Runtime alone.

vitspeech export checkpoints/vit-cifar10 exported/vit                       # pixels -> probabilities
vitspeech export checkpoints/speech-commands-truncated exported/words       # a stream: one step of 40 ms a call
vitspeech export checkpoints/speech-commands-truncated exported/clips --offline   # whole clips
python exported/words/run.py talk.wav                                       # words with their times

Before anything is written, ONNX Runtime and the network are compared on the sample recording or pictures; the folder is
only written if they agree.
"""

import sys
from collections.abc import Sequence

from vitspeech import command_line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech export`: prints what was written, and the difference that the gate found."""
    parser = command_line.parser("export", __doc__)
    parser.add_argument("checkpoint", metavar="MODEL", help="folder of a released model or a finished run")
    parser.add_argument("folder", metavar="FOLDER", help="a new folder")
    offline = "export a streamable speech classifier as one for whole clips"
    parser.add_argument("--offline", action="store_true", help=offline)
    stream = "refuse a model that can't be streamed; without this, a classifier is exported for whole clips"
    parser.add_argument("--stream", action="store_true", help=stream)
    attention = "add the attention weights of every block as outputs (images and streams)"
    parser.add_argument("--attention", action="store_true", help=attention)
    int8 = "quantize the weights, if accuracy on the card's test set falls by at most half a point"
    parser.add_argument("--int8", action="store_true", help=int8)
    root = "folder of that data set; default: VITSPEECH_DATA, else data"
    parser.add_argument("--data", metavar="ROOT", help=root)
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    if options.data is not None and not options.int8:
        parser.error("--data is for --int8")
    if options.offline and options.stream:
        parser.error("give either --offline or --stream")

    from pathlib import Path

    import vitspeech
    from vitspeech.export.folder import check_new, export

    folder = Path(options.folder)
    check_new(folder)
    command_line.check_folder(folder.absolute().parent, "FOLDER")
    print("exporting, then comparing with the network: up to half a minute …", file=sys.stderr, flush=True)
    model = vitspeech.load(options.checkpoint, trust=options.trust)
    given = {name: getattr(options, name) for name in ("offline", "stream", "attention", "int8", "data")}
    metadata = export(model, folder, **given)
    gate = metadata["gate"]
    graphs = [name for name in metadata["files"] if name.endswith(".onnx")]
    sizes = [f"{name} ({(folder / name).stat().st_size / 1e6:.2f} MB)" for name in graphs]
    others = [name for name in metadata["files"] if name not in graphs]
    print(f"{folder}: wrote {', '.join([*sizes, *others])} and model.json (kind: {metadata['kind']})")
    most = f"{gate['difference']:.2g} where the largest number is {gate['largest']:.3g}"
    quantized = dict(metadata.get("int8", {}))
    graph = "ONNX Runtime, before quantization," if quantized else "ONNX Runtime"
    print(f"{graph} differs from the network by at most {most}, over {gate['rows']} rows")
    note = quantized.pop("note", None)
    for name, values in quantized.items():
        (metric, value), size = next(iter(values.items())), values["bytes"] / 1e6
        print(f"{name}: {metric} {value:.4f}, {size:.2f} MB, {values['milliseconds']:.2f} ms an input on one core")
    if note is not None:
        print(note)
