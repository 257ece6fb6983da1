"""A page that runs exported models in a browser: a folder of static files for any web host, and a server for it.

FOLDER/index.html …               the page
FOLDER/ort/                       onnxruntime-web
FOLDER/models/NAME/               model.onnx and model.json of each model
FOLDER/examples/                  a recording and images
FOLDER/models.json                which models and examples there are
FOLDER/model.schema.json          what the page accepts as model.json

The three files of onnxruntime-web are not part of the package. They are of one version, and checked by their sums at
every use. They come from a folder or an archive that the user names, or from the user's cache, or from an index of npm.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image

from vitspeech.checkpoint.model import Model
from vitspeech.data.images.cifar import LABELS, Cifar
from vitspeech.errors import InputError
from vitspeech.export.folder import GRAPH, METADATA, export
from vitspeech.export.runner.model_folder import read_about
from vitspeech.export.runner.model_graph import Graph
from vitspeech.export.runner.model_schema import SCHEMA
from vitspeech.files import check_regular, new_folder, replacing, write_json
from vitspeech.models.seq2seq import EncoderDecoder
from vitspeech.samples import FOLDER as SAMPLES

PAGE = Path(__file__).parent / "page"
EXAMPLES = {"speech": ["left-right-go.wav"], "images": ["cat.jpg", "horse.jpg"]}
VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web@{VERSION}"
SHA256 = {
    "ort.wasm.min.mjs": "219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b",
    "ort-wasm-simd-threaded.mjs": "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
INDEX = "npm_config_registry"  # the variable in which npm, too, looks for the address of a package index
TIMEOUT_S = 60  # without an answer
MOST_BYTES = 2**27  # of an archive of onnxruntime-web, and of a file in it
OWN_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.IGNORECASE | re.ASCII)


def write_demo(
    sources: Sequence[str | Path],
    folder: str | Path,
    runtime: Mapping[str, bytes],
    load: Callable[[Path], Model],
    data: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Write the page of some models, or nothing if one of them can't be shown.

    Args:
        sources: Folders of released models, finished runs or exported models.
        folder: A new folder.
        runtime: From `web_runtime`.
        load: Loads a model that is not exported yet, as `vitspeech.load`. It is exported with its attention.
        data: The folder of CIFAR-10, for test images as examples; see `write_test_pictures`.

    Returns:
        The models: `folder`, `name` and `kind` of each.
    """
    with new_folder(Path(folder)) as draft:
        models, labels = [], []
        for source in map(Path, sources):
            name = free_name(source, [model["name"] for model in models])
            metadata = write_model(source, draft / "models" / name, load)
            models.append({"folder": f"models/{name}", "name": name, "kind": metadata["kind"]})
            labels.append(metadata["labels"])
        shutil.copytree(PAGE, draft, dirs_exist_ok=True)
        for name, content in runtime.items():
            (draft / "ort").mkdir(exist_ok=True)
            (draft / "ort" / name).write_bytes(content)
        (draft / "examples").mkdir()
        for name in (name for names in EXAMPLES.values() for name in names):
            shutil.copyfile(SAMPLES / name, draft / "examples" / name)
        shown = EXAMPLES | {"images": EXAMPLES["images"] + write_test_pictures(draft / "examples", labels, data)}
        examples = {sense: [f"examples/{name}" for name in names] for sense, names in shown.items()}
        write_json({"models": models, "examples": examples}, draft / "models.json")
        write_json(SCHEMA, draft / "model.schema.json")
    return models


def free_name(source: Path, taken: Sequence[str]) -> str:
    """A unique name for a model: its folder's, PARENT-NAME if that is a number; with a number if it is taken."""
    source = Path(os.path.abspath(source))  # the name of a link, not of what it leads to
    name = f"{source.parent.name}-{source.name}" if source.name.isdigit() else source.name
    name = re.sub(r"[^\w.-]+", "-", name)  # it is a part of addresses
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 2))
    return next(each for each in (name, *numbered) if each not in taken)


def write_model(source: Path, target: Path, load: Callable[[Path], Model]) -> dict[str, Any]:
    """Copy an exported model, or export a released model or a finished run, with its attention weights if it has any.

    Returns:
        The metadata. It is an `InputError` if the page can't show the model, or one of its files was altered.
    """
    refusal = f"{source}: the page can't show encoder-decoders, only models of images, of clips, and streams"
    if not (source / METADATA).is_file():
        model = load(source)
        if isinstance(model.network, EncoderDecoder):
            raise InputError(refusal)
        return export(model, target, attention=None)
    try:
        metadata = read_about(source)
        Graph(source, metadata)
    except ValueError as error:
        raise InputError(str(error)) from None
    if metadata["kind"] == "encoder-decoder":
        raise InputError(refusal)
    target.mkdir(parents=True)
    for name in (GRAPH, METADATA):
        shutil.copyfile(source / name, target / name)
    return metadata


def write_test_pictures(folder: Path, labels: Sequence[Sequence[str]], data: str | Path | None) -> list[str]:
    """Write the first CIFAR-10 test image of each label, if a model has these labels and the data set is there.

    The data set must be in the folder `data`; `None` looks in VITSPEECH_DATA. The `labels` are those of each model.

    Returns:
        The names of the files, such as `ship-7.png` for test image 7.
    """
    names, root = LABELS[10], data or os.environ.get("VITSPEECH_DATA")
    if not any(list(each) == names for each in labels):
        if data is not None:
            raise InputError(f"--data {data}: no model has the labels of CIFAR-10, whose test images it would show")
        return []
    try:
        test = Cifar(root=str(root)).official_split("test") if root else None
    except FileNotFoundError:
        if data is not None:
            raise
        test = None
    files = []
    for label, name in enumerate(names if test else ()):
        number = test.targets.index(label)
        files.append(f"{name}-{number}.png")
        Image.fromarray(test.data[number]).save(folder / files[-1])
    return files


class UnavailableError(InputError):
    """The files are not on this machine, and cannot be downloaded; the message says where to put them."""


def web_runtime(source: str | Path | None = None) -> dict[str, bytes]:
    """The files of onnxruntime-web by their names.

    Args:
        source: A folder that has them (also in `dist/`), or the archive (`.tgz`) that `npm pack` writes. `None` takes
            the user's cache, which is filled by `npm pack`, or from the index in the variable `npm_config_registry`.
    """
    if source is not None:
        return read(Path(source))
    folder = cache_folder()
    try:
        return read(folder)
    except (OSError, InputError):
        contents = download()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        with replacing(folder / name) as draft:
            draft.write_bytes(content)
    return contents


def cache_folder() -> Path:
    """Where the files are kept: below XDG_CACHE_HOME, or else ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "vitspeech" / f"onnxruntime-web-{VERSION}"


def read(source: Path) -> dict[str, bytes]:
    """The files of a folder or an archive, if they are there and of this version."""
    needed = f"it must have {', '.join(SHA256)} of {PACKAGE}"
    try:
        if source.is_dir():
            folder = source / "dist" if (source / "dist").is_dir() else source
            contents = {name: (folder / name).read_bytes() for name in SHA256 if (folder / name).is_file()}
        else:
            check_regular(source)
            with tarfile.open(source) as archive:
                members = (member for member in archive if member.isfile() and member.size <= MOST_BYTES)
                found = {member.name.removeprefix("package/dist/"): member for member in members}
                contents = {name: archive.extractfile(found[name]).read() for name in SHA256 if name in found}
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"{source}: neither a folder nor the archive of {PACKAGE}: {error}") from None
    for name, checksum in SHA256.items():
        if name not in contents:
            raise InputError(f"{source}: lacks {name}; {needed}")
        if hashlib.sha256(contents[name]).hexdigest() != checksum:
            raise InputError(f"{source}: {name} is not that of {PACKAGE} (another SHA-256); {needed}")
    return contents


def download() -> dict[str, bytes]:
    """The files from the index of npm packages in the variable `npm_config_registry`, or else by `npm pack`."""
    index, npm = os.environ.get(INDEX), shutil.which("npm")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "package.tgz"
        if index:
            name, version = PACKAGE.split("@")
            address = f"{index.rstrip('/')}/{name}/-/{name}-{version}.tgz"
            try:
                with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
                    archive.write_bytes(answer.read(MOST_BYTES))
            except (OSError, ValueError, HTTPException) as error:
                problem = f"{PACKAGE} could not be loaded from the index of {INDEX}: {error}. "
            else:
                return read(archive)
        elif npm:
            command = [npm, "pack", PACKAGE, "--ignore-scripts", "--pack-destination", folder]
            packed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            archives = [*Path(folder).glob("*.tgz")]
            if packed.returncode == 0 and archives:
                return read(archives[0])
            lines = [line for line in packed.stderr.splitlines() if "error" in line.lower()]
            problem = f"npm pack {PACKAGE} failed: {' '.join(lines[:1]) or 'no archive'}. "
        else:
            problem = ""
    raise UnavailableError(
        f"{problem}The page needs {', '.join(SHA256)} of {PACKAGE}: put them into {cache_folder()}, name a folder or "
        f"an archive with them by --runtime, install npm, or set the variable {INDEX} to the address of an npm index"
    )


class Handler(SimpleHTTPRequestHandler):
    """Static files, not cached, with the types that browsers demand of modules; requests are not logged.

    Only requests to this machine by its own names are answered: a page of the web could otherwise read the models
    under a name of its own that it points to 127.0.0.1 (DNS rebinding).
    """

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".wasm": "application/wasm",
        ".onnx": "application/octet-stream",
    }

    def send_head(self) -> Any:
        """The file that is asked for, or `None` after an answer that says why not."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not OWN_HOST.fullmatch(hosts[0]):
            return self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "Only 127.0.0.1 and localhost are served")
        try:
            return super().send_head()
        except ValueError:  # a path with a NUL byte
            return self.send_error(HTTPStatus.NOT_FOUND)

    def list_directory(self, path: str) -> None:
        """Folders are not listed."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        """Add the headers of all answers."""
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """A server that prints nothing if a browser closes a connection, as it does when a page is reloaded."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of a folder's files on 127.0.0.1, which listens from now on; the folder may be written later.

    The port 0 takes a free one, see `server_port`.
    """
    try:
        return Server(("127.0.0.1", port), partial(Handler, directory=str(folder)))
    except OSError as error:
        raise InputError(f"--port {port}: {error.strerror}; give another one") from None
