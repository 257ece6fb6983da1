"""A web server for a page on this machine alone.

Pictures to try on the page: the samples, and where the data set is at hand some of its test pictures.

The three files of onnxruntime-web that a page needs, of one version, checked by their sums at every use.

They are not part of the package. They come from a folder or an archive that the user names, or from the user's cache,
or from a package index of npm.

A page that runs exported models in a browser: a folder of static files for any web host.

FOLDER/index.html …               the page
FOLDER/ort/                       onnxruntime-web
FOLDER/models/NAME/               model.onnx and model.json of each model
FOLDER/examples/                  a recording and pictures
FOLDER/models.json                which models and examples there are
"""

import hashlib
import json
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
from http.client import HTTPException
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image

from vitspeech.attention import Encoder
from vitspeech.checkpoint.model import Model
from vitspeech.data.images.cifar import LABELS, Cifar
from vitspeech.errors import InputError
from vitspeech.export.folder import FORMAT, GRAPH, METADATA, check_new, export, is_streaming, new_draft
from vitspeech.export.images import has_attention
from vitspeech.export.runner.model_folder import check_same
from vitspeech.export.session import session
from vitspeech.files import replacing, sha256, write_json
from vitspeech.models.seq2seq import EncoderDecoder
from vitspeech.samples import FOLDER as SAMPLES

TYPES = {
    ".mjs": "text/javascript",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
}


class Handler(SimpleHTTPRequestHandler):
    """Static files, not cached, with the types that browsers demand of modules; requests are not logged."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | TYPES

    def end_headers(self) -> None:
        """Add the headers of all answers."""
        self.send_header("Cache-Control", "no-cache")
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

    Args:
        folder: The folder.
        port: The port; 0 takes a free one, see `server_port`.

    Raises:
        InputError: If the port is taken.
    """
    try:
        return Server(("127.0.0.1", port), partial(Handler, directory=str(folder)))
    except OSError as error:
        raise InputError(f"--port {port}: {error.strerror}; give another one") from None


def write_test_pictures(folder: Path, labels: Sequence[Sequence[str]], data: str | Path | None) -> list[str]:
    """Write the first CIFAR-10 test picture of each label, if a model has these labels and the data set is there.

    Args:
        folder: An existing folder.
        labels: Those of each model.
        data: The folder of the data set, which must be there; `None` looks in VITSPEECH_DATA.

    Returns:
        The names of the files, such as `ship-7.png` for test picture 7.

    Raises:
        InputError: If `data` is given and no model has the labels of CIFAR-10.
        FileNotFoundError: If `data` is given and the data set is not there.
    """
    names, root = LABELS[10], data or os.environ.get("VITSPEECH_DATA")
    if not any(list(each) == names for each in labels):
        if data is not None:
            raise InputError(f"--data {data}: no model has the labels of CIFAR-10, whose test pictures it would show")
        return []
    if root is None:
        return []
    try:
        test = Cifar(root=str(root)).official_split("test")
    except FileNotFoundError:
        if data is not None:
            raise
        return []
    files = []
    for label, name in enumerate(names):
        number = test.targets.index(label)
        files.append(f"{name}-{number}.png")
        Image.fromarray(test.data[number]).save(folder / files[-1])
    return files


VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web@{VERSION}"
SHA256 = {
    "ort.wasm.min.mjs": "219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b",
    "ort-wasm-simd-threaded.mjs": "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
INDEX = "npm_config_registry"  # the variable in which npm, too, looks for the address of a package index
TIMEOUT_S = 60  # without an answer


class UnavailableError(InputError):
    """The files are not on this machine, and cannot be downloaded; the message says where to put them."""


def web_runtime(source: str | Path | None = None) -> dict[str, bytes]:
    """The files by their names.

    Args:
        source: A folder that has them (also in `dist/`), or the archive (`.tgz`) that `npm pack` writes. `None` takes
            the user's cache, which is filled by `npm pack`, or from the index in the variable `npm_config_registry`.

    Raises:
        UnavailableError: If they can't be had.
        InputError: If they are not those of this version.
    """
    if source is not None:
        return checked(read(Path(source)), str(source))
    folder = cache_folder()
    try:
        return checked({name: (folder / name).read_bytes() for name in SHA256}, str(folder))
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
    """The files of a folder or an archive.

    Raises:
        InputError: If one is missing.
    """
    if source.is_dir():
        folder = source / "dist" if (source / "dist").is_dir() else source
        find: Callable[[str], bytes] = lambda name: (folder / name).read_bytes()  # noqa: E731
        return found(find, str(source))
    try:
        with tarfile.open(source) as archive:
            return found(lambda name: archive.extractfile(f"package/dist/{name}").read(), str(source))
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"{source}: neither a folder nor the archive of {PACKAGE}: {error}") from None


def found(find: Callable[[str], bytes], source: str) -> dict[str, bytes]:
    """The content of each file.

    Raises:
        InputError: If one is missing.
    """
    contents = {}
    for name in SHA256:
        try:
            contents[name] = find(name)
        except (KeyError, FileNotFoundError):
            raise InputError(f"{source}: lacks {name}; it must have {needed()}") from None
    return contents


def checked(contents: Mapping[str, bytes], source: str) -> dict[str, bytes]:
    """The files, if they are those of this version.

    Raises:
        InputError: If one is not.
    """
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != SHA256[name]:
            raise InputError(f"{source}: {name} is not that of {PACKAGE} (another SHA-256); it must have {needed()}")
    return dict(contents)


def needed() -> str:
    """The files and their version, for messages."""
    return f"{', '.join(SHA256)} of {PACKAGE}"


def download() -> dict[str, bytes]:
    """The files from an index of npm packages.

    Raises:
        UnavailableError: If there is neither npm nor the address of an index, or the download fails.
    """
    hint = (
        f"The page needs {needed()}: put them into {cache_folder()}, name a folder or an archive that has them with "
        f"--runtime, install npm, or set the variable {INDEX} to the address of an npm index"
    )
    index, npm = os.environ.get(INDEX), shutil.which("npm")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "package.tgz"
        if index:
            name, version = PACKAGE.split("@")
            try:
                with urllib.request.urlopen(
                    f"{index.rstrip('/')}/{name}/-/{name}-{version}.tgz", timeout=TIMEOUT_S
                ) as answer:
                    archive.write_bytes(answer.read())
            except (OSError, ValueError, HTTPException) as error:
                raise UnavailableError(
                    f"{PACKAGE} could not be loaded from the index of {INDEX}: {error}. {hint}"
                ) from None
        elif npm:
            command = [npm, "pack", PACKAGE, "--ignore-scripts", "--pack-destination", folder]
            packed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            archives = [*Path(folder).glob("*.tgz")]
            if packed.returncode or not archives:
                lines = [line for line in packed.stderr.splitlines() if "error" in line.lower()]
                raise UnavailableError(f"npm pack {PACKAGE} failed: {' '.join(lines[:1]) or 'no archive'}. {hint}")
            archive = archives[0]
        else:
            raise UnavailableError(hint)
        return checked(read(archive), PACKAGE)


PAGE = Path(__file__).parent / "page"
EXAMPLES = {"speech": ["left-right-go.wav"], "images": ["cat.jpg", "horse.jpg"]}
KINDS = ("images", "clips", "stream")


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
        data: The folder of CIFAR-10, for test pictures as examples; see `write_test_pictures`.

    Returns:
        The models: `folder`, `name` and `kind` of each.

    Raises:
        FileExistsError: If the folder exists.
        FileNotFoundError: If `data` lacks the data set.
        InputError: If a model can't be exported or shown, or an exported folder has an altered file.
    """
    folder = Path(folder)
    check_new(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = new_draft(folder)
    try:
        models = write_models(sources, draft, load)
        shutil.copytree(PAGE, draft, dirs_exist_ok=True)
        for name, content in runtime.items():
            (draft / "ort").mkdir(exist_ok=True)
            (draft / "ort" / name).write_bytes(content)
        (draft / "examples").mkdir()
        for name in (name for names in EXAMPLES.values() for name in names):
            shutil.copyfile(SAMPLES / name, draft / "examples" / name)
        examples = {sense: [f"examples/{name}" for name in names] for sense, names in EXAMPLES.items()}
        labels = [json.loads((draft / model["folder"] / METADATA).read_text("utf-8"))["labels"] for model in models]
        tested = write_test_pictures(draft / "examples", labels, data)
        examples["images"] += [f"examples/{name}" for name in tested]
        write_json({"models": models, "examples": examples}, draft / "models.json")
        draft.rename(folder)
    except BaseException:  # Ctrl-C, too
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return models


def write_models(sources: Sequence[str | Path], folder: Path, load: Callable[[Path], Model]) -> list[dict[str, Any]]:
    """Write `models/NAME/` of each source; see `write_demo`."""
    models: list[dict[str, Any]] = []
    for source in map(Path, sources):
        name = free_name(source, [model["name"] for model in models])
        target = folder / "models" / name
        metadata = copy_exported(source, target) if is_exported(source) else export_loaded(source, target, load)
        models.append({"folder": f"models/{name}", "name": name, "kind": metadata["kind"]})
    return models


def free_name(source: Path, taken: Sequence[str]) -> str:
    """A unique name for a model: its folder's, PARENT-NAME if that is a number; with a number if it is taken."""
    source = Path(os.path.abspath(source))  # the name of a link, not of what it leads to
    name = f"{source.parent.name}-{source.name}" if source.name.isdigit() else source.name
    name = re.sub(r"[^\w.-]+", "-", name)  # it is a part of addresses
    number = next(
        count for count in range(1, len(taken) + 2) if (name if count == 1 else f"{name}-{count}") not in taken
    )
    return name if number == 1 else f"{name}-{number}"


def is_exported(source: Path) -> bool:
    """Whether a folder is an exported model."""
    return (source / METADATA).is_file()


def export_loaded(source: Path, target: Path, load: Callable[[Path], Model]) -> dict[str, Any]:
    """Export a released model or a finished run, with its attention weights if it has any."""
    model = load(source)
    if isinstance(model.network, EncoderDecoder):
        refuse(source, type(model.network).__name__)
    if "image" in model.preprocessing:
        return export(model, target, attention=has_attention(model))
    is_attention = isinstance(getattr(model.network, "encoder", None), Encoder)
    return export(model, target, attention=is_attention and is_streaming(model))


def copy_exported(source: Path, target: Path) -> dict[str, Any]:
    """Copy the graph and the metadata of an exported model.

    Raises:
        InputError: If its format is another one, its graph was altered, or the page can't show it.
    """
    try:
        metadata = json.loads((source / METADATA).read_text(encoding="utf-8"))
        form, kind, expected = metadata["format"], metadata["kind"], metadata["files"][GRAPH]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{source / METADATA}: not that of an exported model ({error}); export it anew") from None
    if form != FORMAT:
        raise InputError(f"{source}: has the format {form}, not {FORMAT}; export it anew")
    if kind not in KINDS:
        refuse(source, f"a model of the kind {kind!r}")
    if sha256(source / GRAPH) != expected:
        raise InputError(f"{source}: {GRAPH} does not match {METADATA} (another SHA-256); export it anew")
    try:
        check_same(session((source / GRAPH).read_bytes()), source, metadata)
    except ValueError as error:
        raise InputError(str(error)) from None
    target.mkdir(parents=True)
    for name in (GRAPH, METADATA):
        shutil.copyfile(source / name, target / name)
    return metadata


def refuse(source: Path, what: str) -> None:
    """Refuse a model that writes its transcript unit by unit."""
    raise InputError(f"{source}: the page can't show {what}: it shows images, clips and streams, not encoder-decoders")
