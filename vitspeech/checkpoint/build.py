"""Building the network that a released model's configuration describes, without trusting the configuration.

Its classes are networks and parts of vitspeech, modules of `torch.nn` and `timm`, and those of trusted modules.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import vitspeech.attention
import vitspeech.encoders
import vitspeech.frontends
import vitspeech.models
from vitspeech.errors import InputError
from vitspeech.lazy_names import nearest
from vitspeech.models import MaskedSpeechModel, SpeechLabeler
from vitspeech.trust import import_trusted, is_known

LIBRARIES = ("torch.nn.", "timm.models.", "timm.layers.")  # whose modules a configuration may name


def build(config: dict[str, Any], trust: Sequence[str] = ()) -> nn.Module:
    """Build the network that a `class_path` and its `init_args` describe.

    Args:
        config: `class_path: vitspeech.NAME` or a class of a trusted module, and `init_args`.
        trust: Modules of the user's own whose code may run.

    Raises:
        InputError: If a class is not trusted, or is not a network.
    """
    network = build_value(config, trust)
    if not isinstance(network, nn.Module):
        raise InputError(f"{config!r} is not a network: it has no class_path of a subclass of torch.nn.Module")
    return network


def build_value(value: Any, trust: Sequence[str]) -> Any:
    """A value in which every nested `class_path` is replaced by an instance, and every own `score` by its class."""
    if isinstance(value, dict) and "class_path" in value:
        return find_class(str(value["class_path"]), trust)(**build_value(value.get("init_args") or {}, trust))
    if isinstance(value, dict):
        return {
            name: find_class(item, trust)
            if name == "score" and isinstance(item, str) and "." in item
            else build_value(item, trust)
            for name, item in value.items()
        }
    return [build_value(item, trust) for item in value] if isinstance(value, list) else value


def find_class(class_path: str, trust: Sequence[str]) -> type:
    """A network of vitspeech or a part of one, a module of `torch.nn` or `timm`, or any class of a trusted module."""
    package, _, name = class_path.partition(".")
    hint = ""
    if package == "vitspeech":
        packages = (vitspeech.models, vitspeech.frontends, vitspeech.attention, vitspeech.encoders)
        hint = nearest(name, [known for package in packages for known in package.__all__])
        part = next((getattr(package, name) for package in packages if name in package.__all__), None)
    elif is_known(class_path) and not class_path.startswith(LIBRARIES):
        part = None
    else:
        part = import_trusted(class_path, trust)
    if not isinstance(part, type) or (is_known(class_path) and not issubclass(part, nn.Module)):
        raise InputError(
            f"class_path {class_path!r} is not a network of vitspeech, torch.nn, timm.models or timm.layers{hint}"
        )
    return part


def build_network(config: dict[str, Any], weights: Mapping[str, Tensor], trust: Sequence[str]) -> nn.Module:
    """The network of a released model with its weights, in evaluation mode.

    `config` has `network`, `labels` and `preprocessing`, all of which must fit the weights.
    """
    try:
        network = build(config["network"], trust)
        network.load_state_dict(weights)
        for name, tensor in network.state_dict().items():
            if weights[name].is_floating_point() != tensor.is_floating_point() or not tensor.isfinite().all():
                raise InputError(f"the weight {name} is {weights[name].dtype}, or has values that are not finite")
        network.eval()
        outputs, expected = count_outputs(network, config), len(config["labels"])
    except Exception as error:  # constructors get whatever the file holds, also those of libraries
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        raise InputError(f"the network cannot be built: {kind}{error}") from error
    if outputs not in (None, expected):
        raise InputError(f"the network has {outputs} outputs, but there are {expected} labels")
    return network


def count_outputs(network: nn.Module, config: dict[str, Any]) -> int | None:
    """The number of labels that a network has outputs for; `None` if that is not known.

    Classifiers are run once, on zeros, and networks for symbols on the last symbol: inputs of the preprocessing must be
    taken. Of other networks of vitspeech the config says the number.
    """
    arguments, preprocessing = config["network"].get("init_args") or {}, config["preprocessing"]
    side, rate_hz, seconds = (preprocessing.get(name) for name in ("image", "sample_rate_hz", "seconds"))
    for module in network.modules():
        if rate_hz and getattr(module, "sample_rate_hz", rate_hz) != rate_hz:
            raise InputError(f"it takes audio of {module.sample_rate_hz} Hz, but preprocessing says {rate_hz} Hz")
    with torch.inference_mode():
        if "symbols" in preprocessing:
            last = torch.tensor([[len(preprocessing["symbols"]) - 1]])
            return network(last, None, torch.zeros(1, 0, dtype=torch.long)).logits.shape[-1] - 1  # one is the end
        if (side or seconds) and not isinstance(network, MaskedSpeechModel):  # which has no outputs for labels
            inputs = torch.zeros((1, 3, side, side) if side else (1, round(seconds * rate_hz)))
            return network(inputs).shape[-1]
    if not config["network"]["class_path"].startswith("vitspeech."):
        return None
    outputs = arguments.get("classes", arguments.get("units"))
    return outputs - 1 if isinstance(network, SpeechLabeler) else outputs  # its last class is "none of them"
