"""Serve a page that runs models in the browser: microphone, recordings and pictures, and what the heads attend to.

vitspeech demo checkpoints/speech-commands-truncated                          # open the address that it prints
vitspeech demo checkpoints/vit-cifar10 checkpoints/cnn-cifar10 runs/mine/0    # several models, to choose from
vitspeech demo exported/words --out site                                      # only write it, for any web host

Sound and pictures do not leave the browser. The page needs three files of onnxruntime-web: they are taken from the
cache (~/.cache/vitspeech) or, the first time, with npm; --runtime names a folder or an archive that has them.
"""

from collections.abc import Sequence
from functools import partial

from vitspeech import command_line

PORT = 8000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech demo`: writes the page, and serves it until Ctrl-C."""
    parser = command_line.parser("demo", __doc__)
    models = "folder of a released model, a finished run or an exported model"
    parser.add_argument("models", nargs="+", metavar="MODEL", help=models)
    parser.add_argument("--port", type=int, help=f"port on 127.0.0.1 (default {PORT}; 0 chooses a free one)")
    parser.add_argument("--out", metavar="FOLDER", help="write the page into a new folder, and do not serve it")
    runtime = "folder that has the files of onnxruntime-web, or the archive that `npm pack` writes"
    parser.add_argument("--runtime", metavar="PATH", help=runtime)
    data = "folder of CIFAR-10: its test pictures are examples for models of its labels (default: VITSPEECH_DATA)"
    parser.add_argument("--data", metavar="ROOT", help=data)
    command_line.add_trust(parser)
    options = parser.parse_args(arguments)
    if options.out is not None and options.port is not None:
        parser.error("--port is for serving, and --out only writes")
    port = PORT if options.port is None else options.port
    if not 0 <= port < 65536:
        parser.error(f"--port {port}: not within 0 .. 65535")

    import tempfile
    from pathlib import Path

    import vitspeech
    from vitspeech.export.demo import server, web_runtime, write_demo
    from vitspeech.export.folder import check_new

    load = partial(vitspeech.load, trust=options.trust)
    if options.out is not None:
        folder = Path(options.out)
        check_new(folder)
        command_line.check_folder(folder.absolute().parent, "--out")
        write_demo(options.models, folder, web_runtime(options.runtime), load, options.data)
        print(f"{folder}: put it on any web host; a microphone needs https or 127.0.0.1")
        return
    with tempfile.TemporaryDirectory() as temporary, server(Path(temporary) / "page", port) as serving:
        print("exporting …", flush=True)
        write_demo(options.models, Path(temporary) / "page", web_runtime(options.runtime), load, options.data)
        print(f"http://127.0.0.1:{serving.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print()
