"""Released models on the Hugging Face Hub: `hf-hub:user/name@revision`, downloaded once, and the upload of one.

The hub's own cache consists of links, which a released model must not have. So the files are copied into a folder per
commit, which `vitspeech.load` checks against the card like any other.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from vitspeech.checkpoint.leakage import TRAINING_ITEMS
from vitspeech.data.utterances.manifest import CHECKSUMS
from vitspeech.errors import InputError, MissingExtraError
from vitspeech.files import check_links, new_folder, read_json

PREFIX = "hf-hub:"
NAME = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?", re.ASCII)
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.yaml", "card.json"
WAIT_S = 4  # for an answer
WANTED = (WEIGHTS, CONFIG, CARD, TRAINING_ITEMS, CHECKSUMS, "*.jsonl")  # and the manifests that the card names


def on_hub(name: str | Path) -> bool:
    """Whether a model is named on the hub and not as a folder."""
    return str(name).startswith(PREFIX)


def fetch(name: str | Path) -> Path:
    """The folder of a released model on the hub, downloaded unless this commit has been before.

    Without a network, with HF_HUB_OFFLINE=1, or if the hub refuses, such as after too many requests or without a login,
    the commit that the revision was at the last download is used.

    The name is `hf-hub:user/name`, or with `@revision`: a branch, a tag or a commit; without one, `main`.

    The folder has the model's files alone, all regular ones; other files of the repository are not downloaded.
    """
    hub = imported()
    match = NAME.fullmatch(str(name).removeprefix(PREFIX))
    if match is None:
        raise InputError(f"{name}: a model on the hub is named {PREFIX}user/name or {PREFIX}user/name@revision")
    repository, revision = match["repository"], match["revision"]
    with one_line_errors(name):
        # The card alone tells a released model from any other repository, before gigabytes are downloaded.
        try:
            is_reached, refusal = answers(repository, revision), None
        except hub.errors.HfHubHTTPError as error:
            is_reached, refusal = False, error
        given = {"library_name": "vitspeech", "local_files_only": not is_reached}
        try:
            card = Path(hub.hf_hub_download(repository, CARD, revision=revision, **given))
        except hub.errors.LocalEntryNotFoundError as error:
            raise (refusal or error) from None
        content = read_json(card)
        if not isinstance(content, dict) or "config_sha256" not in content:
            raise InputError(f"{name}: not a released model of vitspeech: its {CARD} has no checksums")
        commit = card.parent.name
        folder = Path(hub.constants.HF_HOME, "vitspeech", *repository.split("/"), commit)
        if folder.is_dir():
            return folder
        snapshot = Path(hub.snapshot_download(repository, revision=commit, allow_patterns=[*WANTED], **given))
    copy(snapshot, folder)
    return folder


def answers(repository: str, revision: str | None) -> bool:
    """Whether the hub can be reached, asked once: huggingface_hub tries for half a minute. Raises what it refuses."""
    import huggingface_hub as hub

    try:
        hub.get_hf_file_metadata(hub.hf_hub_url(repository, CARD, revision=revision), timeout=WAIT_S)
    except hub.errors.HfHubHTTPError as error:
        if error.response.status_code < 500:
            raise
        return False
    except (hub.errors.HTTPError, hub.errors.OfflineModeIsEnabled, OSError):
        return False
    return True


def copy(snapshot: Path, folder: Path) -> None:
    """Copy the files of a model out of the hub's cache, all or none."""
    for name in (WEIGHTS, CONFIG, CARD):
        if not (snapshot / name).is_file():
            raise InputError(f"{folder}: not a model of vitspeech: it has no {name}")
    try:
        with new_folder(folder) as draft:
            for file in (file for pattern in WANTED for file in snapshot.glob(pattern) if file.is_file()):
                shutil.copyfile(file, draft / file.name)
    except OSError:
        if not folder.is_dir():  # else another process was faster, with the same files
            raise


def push(folder: str | Path, repository: str, *, private: bool = False) -> str:
    """Upload a released model in one commit, and return its address with that commit.

    The repository is created if there is none, and files that the model no longer has are deleted from it. Hidden files
    are not uploaded.

    `private` is of a new repository; one that exists stays as it is.
    """
    check_push(repository)
    check_links(folder, [name for name in os.listdir(folder) if not name.startswith(".")])
    hub = imported()
    with one_line_errors(repository):
        api = hub.HfApi(library_name="vitspeech")
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            commit_message=f"Release {Path(os.path.realpath(folder)).name}",
            ignore_patterns=[".*", "*/.*"],
            delete_patterns=["*"],
        )
    return f"{PREFIX}{repository}@{commit.oid}"


def check_push(repository: str) -> None:
    """Refuse what `push` would refuse, before the work is done."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII) is None:
        raise InputError(f"--push {repository}: not of the form user/name")
    imported()


def imported() -> ModuleType:
    """The package `huggingface_hub`."""
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtraError("models on the hub need huggingface_hub: pip install 'vitspeech[hub]'") from None
    return huggingface_hub


@contextlib.contextmanager
def one_line_errors(name: str | Path) -> Iterator[None]:
    """Turn the errors of huggingface_hub and of the network into an InputError that says what to do."""
    from huggingface_hub import errors

    reasons = {  # an error is of the first class that fits
        errors.GatedRepoError: "access has to be asked for on the page of the repository",
        errors.RepositoryNotFoundError: "no such repository, or a private one (log in with `hf auth login`)",
        errors.RevisionNotFoundError: "the repository has no such revision",
        errors.LocalEntryNotFoundError: "the hub cannot be reached, and this revision was not downloaded before: check "
        "the connection and HF_ENDPOINT, or copy the model's files into a folder and name that",
        errors.EntryNotFoundError: f"not a released model of vitspeech: it has no {CARD}",
    }
    try:
        yield
    except InputError:
        raise
    except (*reasons, errors.HFValidationError, errors.HTTPError, errors.OfflineModeIsEnabled, ValueError) as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        others = f"the hub refused, or cannot be reached (check the connection and `hf auth login`): {first_line}"
        reason = next((text for kind, text in reasons.items() if isinstance(error, kind)), others)
        raise InputError(f"{name}: {reason}") from None
