"""`vitspeech export` and `vitspeech demo`: models as ONNX graphs, and in a page of the browser."""

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import vitspeech
from vitspeech import command_line
from vitspeech.errors import InputError, check_number
from vitspeech.files import check_new

EXPORT = """Write a model as an ONNX graph, with a runner that needs numpy and ONNX Runtime alone.

vitspeech export checkpoints/vit-cifar10 exported/vit                       # pixels -> probabilities
vitspeech export checkpoints/keywords-12 exported/words                     # a stream: one step of 40 ms a call
vitspeech export checkpoints/keywords-12 exported/clips --offline                 # whole clips
python exported/words/run.py talk.wav                                       # words with their times

Before anything is written, ONNX Runtime and the network are compared on the sample recording or images; the folder is
only written if they agree.
"""
DEMO = """Serve a page that runs models in the browser: microphone, recordings, images, and what the heads attend to.

vitspeech demo checkpoints/keywords-12                                        # open the address that it prints
vitspeech demo checkpoints/vit-cifar10 checkpoints/cnn-cifar10 runs/mine/0    # several models, to choose from
vitspeech demo exported/words --out site                                      # only write it, for any web host

Sound and images do not leave the browser. The page needs three files of onnxruntime-web: they are taken from the
cache (~/.cache/vitspeech) or, the first time, with npm; --runtime names a folder or an archive that has them.
"""
PORT = 8000


def export(arguments: Sequence[str]) -> None:
    """Run `vitspeech export`: prints what was written, and the difference from the network."""
    parser = command_line.parser("export", EXPORT)
    add = parser.add_argument
    add("checkpoint", metavar="MODEL", help="folder of a released model or a finished run")
    add("folder", type=Path, metavar="FOLDER", help="a new folder")
    add("--offline", action="store_true", help="export a streamable speech classifier as one for whole clips")
    add("--stream", action="store_true", help="refuse a model that can't be streamed, instead of taking whole clips")
    add("--attention", action="store_true", help="add every block's attention weights (images and streams)")
    add("--int8", action="store_true", help="quantize, if accuracy on the card's test set falls by at most 0.5 points")
    add("--data", metavar="ROOT", help="folder of that data set; default: VITSPEECH_DATA, else data")
    options = parser.parse_args(arguments)
    if options.offline and options.stream:
        parser.error("give either --offline or --stream")
    if options.data and not options.int8:
        raise InputError("--data: is for --int8")

    from vitspeech.export.folder import export

    folder = options.folder
    check_new(folder)
    command_line.check_folder(folder.absolute().parent, "FOLDER")
    print("exporting, then comparing with the network: up to half a minute …", file=sys.stderr, flush=True)
    model = vitspeech.load(options.checkpoint, trust=options.trust)
    names = ("offline", "stream", "attention", "int8", "data")
    metadata = export(model, folder, **{name: getattr(options, name) for name in names})
    parity, quantized = metadata["parity"], dict(metadata.get("int8", {}))
    graphs = [name for name in metadata["files"] if name.endswith(".onnx")]
    sizes = [f"{name} ({(folder / name).stat().st_size / 1e6:.2f} MB)" for name in graphs]
    others = [name for name in metadata["files"] if name not in graphs]
    print(f"{folder}: wrote {', '.join([*sizes, *others])} and model.json (kind: {metadata['kind']})")
    most = f"{parity['difference']:.2g} where the largest number is {parity['largest']:.3g}"
    graph = "ONNX Runtime, before quantization," if quantized else "ONNX Runtime"
    print(f"{graph} differs from the network by at most {most}, over {parity['rows']} rows")
    note = quantized.pop("note", None)
    for name, values in quantized.items():
        (metric, value), size = next(iter(values.items())), values["bytes"] / 1e6
        print(f"{name}: {metric} {value:.4f}, {size:.2f} MB, {values['milliseconds']:.2f} ms an input on one core")
    if note is not None:
        print(note)


def demo(arguments: Sequence[str]) -> None:
    """Run `vitspeech demo`: writes the page, and serves it until Ctrl-C."""
    parser = command_line.parser("demo", DEMO)
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="folder of a released model, a finished run or an exported model")
    add("--port", type=int, help=f"port on 127.0.0.1 (default {PORT}; 0 chooses a free one)")
    add("--out", type=Path, metavar="FOLDER", help="write the page into a new folder, and do not serve it")
    add("--runtime", metavar="PATH", help="folder with onnxruntime-web's files, or the archive of `npm pack`")
    add("--data", metavar="ROOT", help="folder of CIFAR-10, for examples of its labels (default: VITSPEECH_DATA)")
    options = parser.parse_args(arguments)
    if options.out is not None and options.port is not None:
        raise InputError("--port: nothing is served with --out")
    port = PORT if options.port is None else options.port
    check_number("--port", port, 0, 65535)

    from vitspeech.export.demo import server, web_runtime, write_demo

    load = partial(vitspeech.load, trust=options.trust)
    if options.out is not None:
        check_new(options.out)
        command_line.check_folder(options.out.absolute().parent, "--out")
        write_demo(options.models, options.out, web_runtime(options.runtime), load, options.data)
        print(f"{options.out}: put it on any web host; a microphone needs https or 127.0.0.1")
        return
    with tempfile.TemporaryDirectory() as temporary, server(Path(temporary) / "page", port) as serving:
        print("exporting …", flush=True)
        write_demo(options.models, Path(temporary) / "page", web_runtime(options.runtime), load, options.data)
        print(f"http://127.0.0.1:{serving.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print()
