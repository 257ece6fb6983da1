"""`--init_from`: training that starts from the weights of a released model or a finished run."""

from collections.abc import Sequence
from pathlib import Path

from vitspeech.checkpoint import load
from vitspeech.checkpoint.leakage import add_items_of
from vitspeech.checkpoint.transfer import Transfer, transfer
from vitspeech.data.module import DataModule
from vitspeech.files import write_json
from vitspeech.tasks import Task
from vitspeech.training.run_folder import INIT_FROM


def find_weights(folder: str, task: Task, data: DataModule, trust: Sequence[str] = ()) -> Transfer:
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
