"""Reading released models that were written by an earlier version of the package.

Format 1 is that of vitspeech 0.1. `FORMAT` is the format that `save` writes; a card without `format` is of format 1.
"""

from typing import Any

from torch import Tensor

FORMAT = 2
RENAMED_CLASSES = {"vitspeech.SpeechLabeller": "vitspeech.SpeechLabeler"}
RENAMED_ARGUMENTS = {"normaliser": "normalizer"}
RENAMED_TENSORS = {"log_mel.deviation": "log_mel.std"}


def upgraded_config(config: dict[str, Any]) -> dict[str, Any]:
    """The contents of a format 1 `config.yaml` as format 2 has them."""
    preprocessing = dict(config["preprocessing"])
    if "deviation" in preprocessing:
        preprocessing["std"] = preprocessing.pop("deviation")
    return {**config, "network": upgraded_network(config["network"]), "preprocessing": preprocessing}


def upgraded_network(network: dict[str, Any]) -> dict[str, Any]:
    """`class_path` and `init_args` of a network, nested ones included."""
    arguments = {}
    for name, value in (network.get("init_args") or {}).items():
        nested = isinstance(value, dict) and "class_path" in value
        arguments[RENAMED_ARGUMENTS.get(name, name)] = upgraded_network(value) if nested else value
    path = network["class_path"]
    return {**network, "class_path": RENAMED_CLASSES.get(path, path), "init_args": arguments}


def upgraded_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A format 1 state dictionary under the names of format 2."""
    renamed = {}
    for name, tensor in weights.items():
        for old, new in RENAMED_TENSORS.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        renamed[name] = tensor
    return renamed
