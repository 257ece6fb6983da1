"""What a network takes from the data: numbers of classes, units and symbols, the side of images, the sample rate."""

from collections.abc import Sequence

from jsonargparse import Namespace

from vitspeech.checkpoint.schema import check_labels
from vitspeech.data.module import InMemoryData, read_labels
from vitspeech.errors import InputError
from vitspeech.tasks import Task, find_task


def fill_sizes(config: Namespace, data: InMemoryData, trust: Sequence[str]) -> None:
    """Set `classes`, `units`, `image` and `symbols` of the network in a config where they are left out."""
    network = config.model.init_args.get("network")
    sizes = getattr(network, "init_args", None) or {}
    names = ("classes", "units", "image", "symbols")
    missing = [name for name in names if name in sizes and not sizes[name]]
    if missing:
        task = find_task(config.model.class_path, trust)
        known = task.network_sizes(read_labels(data))
        preprocessing = data.preprocessing
        known |= {"image": preprocessing.get("image"), "symbols": len(preprocessing.get("symbols", ()))}
        for name in known.keys() & set(missing):
            sizes[name] = known[name]


def check_sizes(config: Namespace, task: Task, data: InMemoryData) -> None:
    """Refuse labels that a model cannot have, and a number of classes or units or a sample rate other than the data's.

    Raises:
        InputError: If a label is there twice or not one line of text, if the network has another sample rate, or if the
            config gives a network of vitspeech another number of classes or units.
    """
    check_labels(list(data.labels))
    check_sample_rate(task, data)
    network = config.model.init_args.get("network")
    if not str(getattr(network, "class_path", "")).startswith("vitspeech."):
        return
    for name, size in task.network_sizes(list(data.labels)).items():
        value = network.init_args.get(name, size)
        if value != size:
            labels = len(data.labels)
            raise InputError(
                f"the network has {name}={value}, the data {labels} labels: leave {name} out of the config, or "
                f"give {size}"
            )


def check_sample_rate(task: Task, data: InMemoryData) -> None:
    """Refuse a log-mel spectrogram at another sample rate than the data.

    Raises:
        InputError: If the sample rates differ.
    """
    own_hz = getattr(getattr(getattr(task.network, "tokens", None), "log_mel", None), "sample_rate_hz", None)
    rate_hz = data.preprocessing.get("sample_rate_hz")
    if own_hz is not None and rate_hz is not None and own_hz != rate_hz:
        raise InputError(
            f"the network takes speech at {own_hz:,} Hz, the data is at {rate_hz:,} Hz: give its tokens "
            f"sample_rate_hz={rate_hz}"
        )
