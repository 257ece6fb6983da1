"""Write a released model or a finished run as an ONNX graph, with a runner that needs numpy and ONNX Runtime alone.

vitspeech export checkpoints/vit-cifar10 exported/vit                       # pixels -> probabilities
vitspeech export checkpoints/speech-commands-truncated exported/words       # a stream: one step of 40 ms a call
vitspeech export checkpoints/speech-commands-truncated exported/clips --offline   # whole clips
python exported/words/run.py talk.wav                                       # words with their times

Before anything is written, ONNX Runtime and the network are compared on the sample recording or pictures; the folder is
only written if they agree.
"""

from collections.abc import Sequence

from vitspeech import command_line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech export`: prints what was written, and the difference that the gate found."""
    parser = command_line.parser("export", __doc__)
    parser.add_argument("checkpoint", metavar="MODEL", help="folder of a released model or a finished run")
    parser.add_argument("folder", metavar="FOLDER", help="a new folder")
    offline = "export a speech classifier that can be streamed for whole clips"
    parser.add_argument("--offline", action="store_true", help=offline)
    attention = "add the attention weights of every block as outputs"
    parser.add_argument("--attention", action="store_true", help=attention)
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)

    from pathlib import Path

    import vitspeech
    from vitspeech.export.folder import check_new, export

    folder = Path(options.folder)
    check_new(folder)
    command_line.check_folder(folder.absolute().parent, "FOLDER")
    model = vitspeech.load(options.checkpoint, trust=options.trust)
    metadata = export(model, folder, offline=options.offline, attention=options.attention)
    gate = metadata["gate"]
    sizes = ", ".join(f"{name} ({(folder / name).stat().st_size / 1e6:.2f} MB)" for name in metadata["files"])
    print(f"{folder}: wrote {sizes} and model.json")
    most = f"{gate['difference']:.2g} where the largest number is {gate['largest']:.3g}"
    print(f"ONNX Runtime differs from the network by at most {most}, over {gate['rows']} rows")
