"""Finding a data set of Hugging Face: on the hub, or on disk in what its library `datasets` reads or has written.

No code of a data set runs: the library refuses loading scripts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from vitspeech.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import datasets

CONVERTED = "refs/convert/parquet"  # the revision in which the hub keeps a copy of a set without its code
WAIT_S = 4  # for an answer of the hub
STREAMED = ("parquet", "arrow")  # builders of the library whose tables hold images and recordings


def imported() -> ModuleType:
    """The package `datasets`."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("sets of Hugging Face need datasets: pip install 'vitspeech[datasets]'") from None
    return datasets


def load(
    path: str, name: str | None, revision: str | None, *, stream: bool = False
) -> "dict[str, datasets.Dataset | datasets.IterableDataset]":
    """The splits of a data set on the hub or on disk, by their own names; none is decoded.

    `stream` reads them while they are downloaded, and keeps nothing on disk; only files that are tables can be.
    """
    library = imported()
    folder = Path(path)
    try:
        if (folder / "dataset_dict.json").is_file():
            found = library.load_from_disk(path)
        elif (folder / "state.json").is_file():
            found = {"train": library.load_from_disk(path)}
        elif folder.suffix == ".parquet":
            found = library.load_dataset("parquet", data_files=path, streaming=stream)
        elif folder.is_dir():
            with undecoded(library):
                found = library.load_dataset(path, name, streaming=stream)
        else:
            # In the copies that the hub makes, the configurations are folders.
            which = {"data_dir": name} if revision == CONVERTED else {"name": name}
            with offline_if_unreachable(path, library):
                found = library.load_dataset(path, **which, revision=revision, streaming=stream)
    except (ValueError, OSError, RuntimeError, library.exceptions.DatasetsError) as error:
        raise InputError(f"{path}: {reason_of(error)}") from None
    for dataset in found.values() if stream else ():
        kind = "save_to_disk" if isinstance(dataset, library.Dataset) else dataset.info.builder_name
        if kind not in STREAMED:
            raise InputError(f"{path}: storage=stream reads Parquet and Arrow files, not {kind}; set storage=files")
    return dict(found)


def reason_of(error: Exception) -> str:
    """What an error of the library says, in one line, and what to do."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "scripts are no longer supported" in text:
        return f"{text}; try `revision: {CONVERTED}`, where the hub keeps a copy without code"
    if "offline mode" in text or "Couldn't reach" in text:
        return "the hub cannot be reached, and the set is not in the cache; check the connection and HF_ENDPOINT"
    return text


@contextmanager
def offline_if_unreachable(path: str, library: ModuleType) -> Iterator[None]:
    """Have the library use its cache at once if the hub does not answer: it would try again for minutes."""
    import huggingface_hub as hub

    is_offline = False
    try:
        hub.HfApi().dataset_info(path, timeout=WAIT_S)
    except hub.errors.HfHubHTTPError:
        pass  # the library says what it is
    except (hub.errors.HTTPError, hub.errors.OfflineModeIsEnabled, OSError):
        is_offline = True
    is_offline |= hub.constants.HF_HUB_OFFLINE
    with (
        patch.object(library.config, "HF_HUB_OFFLINE", is_offline),
        patch.object(hub.constants, "HF_HUB_OFFLINE", is_offline),
    ):
        yield


@contextmanager
def undecoded(library: ModuleType) -> Iterator[None]:
    """Have the library take the paths of an `audiofolder` as they are: it asks for FFmpeg to look at them."""

    def encode(self: Any, value: Any) -> dict[str, Any]:
        return value if isinstance(value, dict) else {"bytes": None, "path": str(value)}

    with patch.object(library.Audio, "encode_example", encode):
        yield
