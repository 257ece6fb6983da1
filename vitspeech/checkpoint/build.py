"""Building the network that a released model's configuration describes, without trusting the configuration.

Its classes are networks and parts of vitspeech, modules of `torch.nn` and `timm`, and those of trusted modules; and it
gets no more memory than its weights suggest.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import vitspeech.attention
import vitspeech.encoders
import vitspeech.frontends
import vitspeech.models
from vitspeech.checkpoint.card import shown
from vitspeech.errors import InputError
from vitspeech.models import MaskedSpeechModel, Seq2Seq, SpeechLabeler
from vitspeech.trust import check_trusted, import_trusted, is_known

LIBRARIES = ("torch.nn.", "timm.models.", "timm.layers.")  # whose modules a configuration may name
SPARE_ELEMENTS, SPARE_OPERATIONS = 2**26, 20_000  # what a small network may use: 256 MiB of numbers


def build(config: dict[str, Any], trust: Sequence[str] = ()) -> nn.Module:
    """Build the network that a `class_path` and its `init_args` describe.

    Args:
        config: `class_path: vitspeech.NAME` or a class of a trusted module, and `init_args`.
        trust: Modules of the user's own whose code may run.

    Raises:
        InputError: If a class is not trusted, or is not a network.
    """
    network_class = find_class(str(config.get("class_path")), trust)
    if not issubclass(network_class, nn.Module):
        raise InputError(f"class_path {config['class_path']!r} is not a network (a subclass of torch.nn.Module)")
    return network_class(**built_arguments(config.get("init_args") or {}, trust))


def build_bounded(config: dict[str, Any], weights: Mapping[str, Tensor], trust: Sequence[str] = ()) -> nn.Module:
    """`build` for a configuration that may ask for any size, in memory and time that fit the weights.

    Raises:
        InputError: If a class is not trusted or its constructor fails, or the network is larger than its weights.
    """
    elements = sum(tensor.numel() for tensor in weights.values())
    try:
        with Bounded(8 * elements + SPARE_ELEMENTS, 50 * len(weights) + SPARE_OPERATIONS):
            return build(config, trust)
    except InputError:
        raise
    except Exception as error:  # constructors get whatever the file holds, also those of libraries
        raise InputError(f"{type(error).__name__}: {error}") from error


class Bounded(TorchDispatchMode):
    """Refuses torch operations beyond a number, and results beyond a number of elements, before they take memory.

    Args:
        elements: Most elements of all results together.
        operations: Most operations.
    """

    def __init__(self, elements: int, operations: int) -> None:
        super().__init__()
        self.elements, self.operations = elements, operations

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.take(0)
        if largest_result(args, kwargs) > self.elements:
            self.take(elements_of(result_on_meta(func, args, kwargs)))
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        self.take(elements_of(result))
        return result

    def take(self, elements: int) -> None:
        """Count one operation's results.

        Raises:
            InputError: If there are too many.
        """
        self.elements, self.operations = self.elements - elements, self.operations - 1
        if self.elements < 0 or self.operations < 0:
            raise InputError("the network that config.yaml describes is far larger than its weights")


def largest_result(args: tuple, kwargs: dict[str, Any]) -> int:
    """A number that the elements of an operation's result are not expected to exceed: the product of all sizes."""
    sizes = [
        leaf.numel() if isinstance(leaf, Tensor) else abs(int(leaf))
        for leaf in tree_leaves((args, kwargs))
        if isinstance(leaf, Tensor | int) or (isinstance(leaf, float) and math.isfinite(leaf))
    ]
    return math.prod(size for size in sizes if size > 1)


def result_on_meta(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of an operation as tensors without memory; an empty tuple if it has none."""
    try:
        args, kwargs = tree_map(lambda leaf: leaf.to("meta") if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        if any(argument.name == "device" for argument in func._schema.arguments):
            kwargs = kwargs | {"device": torch.device("meta")}
        return func(*args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError):  # the operation itself says what is wrong
        return ()


def elements_of(result: Any) -> int:
    """The elements of all tensors in a result; those of views count, too."""
    return sum(leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor))


def built_arguments(arguments: dict[str, Any], trust: Sequence[str]) -> dict[str, Any]:
    """Arguments in which every nested class is replaced by an instance, and every own score by its class."""
    return {
        name: find_class(value, trust)
        if name == "score" and isinstance(value, str) and "." in value
        else built_value(value, trust)
        for name, value in arguments.items()
    }


def built_value(value: Any, trust: Sequence[str]) -> Any:
    """A value in which every nested class is replaced by an instance, in dictionaries and lists."""
    if isinstance(value, dict) and "class_path" in value:
        return find_class(value["class_path"], trust)(**built_arguments(value.get("init_args") or {}, trust))
    if isinstance(value, dict):
        return built_arguments(value, trust)
    return [built_value(item, trust) for item in value] if isinstance(value, list) else value


def find_class(class_path: str, trust: Sequence[str]) -> type:
    """A network of vitspeech or a part of one, a module of `torch.nn` or `timm`, or any class of a trusted module.

    Raises:
        InputError: If it is none of these.
    """
    if class_path.startswith("vitspeech."):
        name = class_path.removeprefix("vitspeech.")
        rooms = (vitspeech.models, vitspeech.frontends, vitspeech.attention, vitspeech.encoders)
        part = next((getattr(room, name) for room in rooms if name in room.__all__), None)
        if not (isinstance(part, type) and issubclass(part, nn.Module)):
            raise InputError(f"class_path {class_path!r} is not a network of vitspeech")
        return part
    check_trusted(class_path, trust)
    if is_known(class_path) and not class_path.startswith(LIBRARIES):
        raise InputError(
            f"class_path {class_path!r} is not a network of vitspeech, torch.nn, timm.models or timm.layers"
        )
    part = import_trusted(class_path, trust)
    if not isinstance(part, type) or (is_known(class_path) and not issubclass(part, nn.Module)):
        raise InputError(f"class_path {class_path!r} is not a network (a subclass of torch.nn.Module)")
    return part


def check_classes(value: Any) -> None:
    """Refuse a `class_path` that is not a name, and `init_args` that are not a mapping, wherever they are nested.

    Raises:
        InputError: If there is one.
    """
    if isinstance(value, dict) and "class_path" in value:
        if not isinstance(value["class_path"], str):
            raise InputError(f"class_path {value['class_path']!r} is not a name")
        if not isinstance(value.get("init_args") or {}, dict):
            raise InputError(f"init_args of {value['class_path']} is not a mapping")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            check_classes(item)


def check_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Check that weights are finite floats, as the network's parameters are.

    Raises:
        InputError: If one has another kind of numbers, or NaN or infinite values.
    """
    for name, tensor in network.state_dict().items():
        if name not in weights:
            continue  # `load_state_dict` says so, unless the module has a default for it
        given = weights[name]
        if given.is_floating_point() != tensor.is_floating_point() or given.is_complex() != tensor.is_complex():
            raise InputError(f"the weight {name} is {given.dtype}, not {tensor.dtype}")
        if given.is_floating_point() and not given.isfinite().all():
            raise InputError(f"the weight {name} has values that are not finite")


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load weights into a network.

    Raises:
        InputError: If tensors are missing, have other shapes or are not of the network; the message names the first.
    """
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:  # lists all of them
        expected = network.state_dict()
        for name, tensor in expected.items():
            if name not in weights:
                raise InputError(f"the weight {name} is missing") from error
            if weights[name].shape != tensor.shape:
                shapes = f"{tuple(weights[name].shape)}, not {tuple(tensor.shape)}"
                raise InputError(f"the weight {name} has the shape {shapes}") from error
        if foreign := next((name for name in weights if name not in expected), None):
            raise InputError(f"the weight {shown(foreign)} is not of this network") from error
        raise InputError(str(error)) from error  # of a module that loads its weights in its own way


def check_output(network: nn.Module, labels: Sequence[str], preprocessing: Mapping[str, Any]) -> None:
    """Check that a network takes the inputs that the preprocessing makes, and has an output for each label.

    Classifiers are run once, on zeros, and networks for symbols on the last symbol; of others the number of units is
    compared.

    Raises:
        InputError: If it does not.
    """
    if "image" in preprocessing:
        inputs = torch.zeros(1, 3, preprocessing["image"], preprocessing["image"])
    elif "seconds" in preprocessing and not isinstance(network, MaskedSpeechModel):  # which has no outputs for labels
        inputs = torch.zeros(1, round(preprocessing["seconds"] * preprocessing["sample_rate_hz"]))
    elif "symbols" in preprocessing:
        inputs, units = torch.tensor([[len(preprocessing["symbols"]) - 1]]), torch.zeros(1, 0, dtype=torch.long)
    else:
        return
    is_symbols = "symbols" in preprocessing
    try:
        with torch.inference_mode():
            output = network(inputs, None, units).logits[:, 0] if is_symbols else network(inputs)
            shape = tuple(output.shape)
    except Exception as error:
        raise InputError(f"does not take inputs of shape {tuple(inputs.shape)}: {error}") from error
    if shape != (1, len(labels) + is_symbols):  # one more for the end
        raise InputError(f"gives outputs of shape {shape[1:]}, but there are {len(labels)} labels")


def check_sizes(config: dict[str, Any], network: nn.Module, model: Mapping[str, Any]) -> None:
    """Check that a network of vitspeech has as many outputs as labels, and the symbols or the sample rate of its input.

    Args:
        config: The network's `class_path` and `init_args`.
        network: The network.
        model: `labels` and `preprocessing`.

    Raises:
        InputError: If it does not.
    """
    arguments, count = config.get("init_args") or {}, len(model["labels"])
    expected = count + isinstance(network, SpeechLabeler)  # whose last class is "none of them"
    for name in ("classes", "units"):
        if config["class_path"].startswith("vitspeech.") and arguments.get(name, expected) != expected:
            raise InputError(f"the network has {name}={arguments[name]}, but there are {count} labels")
    symbols = len(model["preprocessing"].get("symbols", ()))
    if isinstance(network, Seq2Seq) and network.tokens.symbols != symbols:
        raise InputError(f"the network takes {network.tokens.symbols} symbols, but preprocessing has {symbols}")
    for module in network.modules():
        rate, expected = getattr(module, "sample_rate_hz", None), model["preprocessing"].get("sample_rate_hz")
        if isinstance(rate, int) and isinstance(expected, int) and rate != expected:
            raise InputError(f"the network takes audio of {rate} Hz, but preprocessing says {expected} Hz")
