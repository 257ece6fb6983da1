"""`--init_from`: training that starts from the weights of a released model or a finished run."""

import os
from collections.abc import Sequence
from pathlib import Path

from vitspeech.checkpoint import load
from vitspeech.checkpoint.items import add_items_of
from vitspeech.checkpoint.transfer import Transfer, transfer
from vitspeech.data.files import write_json
from vitspeech.data.module import InMemoryData
from vitspeech.errors import InputError
from vitspeech.tasks import Task
from vitspeech.training.configs import read_config
from vitspeech.training.run_folder import INIT_FROM


def named_folder(configs: Sequence[Path]) -> str | None:
    """The folder that the last of these configs with a key `init_from` names.

    It is relative to the config, if there is such a folder, else to the current folder, as on the command line.

    Raises:
        InputError: If it is not the path of a folder.
    """
    folder = None
    for file in configs:
        if "init_from" not in (config := read_config(file)):
            continue
        folder = config["init_from"]
        if not isinstance(folder, str | None):
            raise InputError(f"{file}: init_from: {folder!r} is not the path of a folder")
        if folder and (file.parent / folder).is_dir():
            folder = os.path.normpath(file.parent / folder)
    return folder


def find_weights(folder: str, task: Task, data: InMemoryData, trust: Sequence[str] = ()) -> Transfer:
    """Read the weights that training starts from. The network gets them when training begins, once it is initialized.

    Raises:
        FileNotFoundError: If the model or a file of it is missing.
        InputError: If it is broken, shares no weights with the network, or has a different front end.
    """
    found = transfer(load(folder, trust=trust), task.network, list(data.labels), data.preprocessing)
    task.starting_weights = found.weights
    return found


def keep(found: Transfer, run: Path) -> None:
    """Print what was taken, and write all of it into the folder of the run, with what that model was trained on."""
    print(found.report())
    add_items_of(Path(found.source), run)
    write_json(found.record(), run / INIT_FROM)
