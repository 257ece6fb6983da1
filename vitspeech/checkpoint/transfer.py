"""Starting a network from the weights of a released model: what can be taken, by name, and what is new."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError, check_number, some_names
from vitspeech.frontends import LogMel
from vitspeech.models import TimmModel

OF_LABELS = {"head", "ctc_head", "embedding", "classifier", "fc"}  # names of modules that have a row for each label
NAMED = 4  # tensors in one line of the report
POSITIONS = ("positions.table", "network.pos_embed")  # learned positions of our ViT (T, D), and of timm's (1, T, D)


@dataclass
class Transfer:
    """The weights that a network takes from a released model, and the names of tensors that it takes or not.

    `weights` are by their names in the network; those with a row for each label have the source's rows where both have
    the label, and the network's own rows elsewhere.
    """

    source: str  # the folder of the model
    sha256: str  # of its weights
    weights: dict[str, Tensor]
    taken: list[str] = field(default_factory=list)  # tensors that are taken as a whole
    interpolated: list[str] = field(default_factory=list)  # positions that are taken for images of another size
    labels: list[str] = field(default_factory=list)  # whose rows are taken
    new_labels: list[str] = field(default_factory=list)  # whose rows are new
    missing: list[str] = field(default_factory=list)  # tensors that the source does not have
    other_shapes: list[str] = field(default_factory=list)  # tensors of another shape there, or of other labels
    unused: list[str] = field(default_factory=list)  # tensors that only the source has
    numbers: tuple[int, int] = (0, 0)  # that are taken, and that the network has

    def record(self) -> dict[str, Any]:
        """Everything but the weights, for JSON."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "weights"}

    def report(self) -> str:
        """What was taken and what was not, in a few lines."""
        count, total = self.numbers
        lines = [
            f"starts from {self.source}: {count:,} of {total:,} numbers loaded, {len(self.taken)} tensors as a whole"
        ]
        if self.labels or self.new_labels:
            loaded, new = (some_names(names, NAMED) or "none" for names in (self.labels, self.new_labels))
            lines.append(f"  rows of the head: loaded {loaded}; new {new}")
        for text, names in (
            ("interpolated for another size of images", self.interpolated),
            ("new, not in it", self.missing),
            ("new, another shape there", self.other_shapes),
            ("left there", self.unused),
        ):
            if names:
                lines.append(f"  {text}: {some_names(names, NAMED)}")
        return "\n".join(lines)


def transfer(
    model: Model, network: nn.Module, labels: Sequence[str], preprocessing: Mapping[str, Any], *, least: float = 0.1
) -> Transfer:
    """Find the weights that a network can take from a released model: those of the same name and shape.

    Tensors with a row for each label, such as those of the head, are taken row by row: by label, not by index. Mean and
    std of the front end are taken, too, since the other weights fit no others. Between an encoder-decoder and another
    network the head over the encoder's tokens is taken, not that of the decoder. Learned positions of images of another
    size are interpolated.

    `labels` and `preprocessing` are those of the network's data; the network stays as it is. A model of which less than
    the share `least` of the network's numbers can be taken, or with another front end, is refused.
    """
    check_number("init_from_least", least, 0, 1)
    check_front_end(model, network, preprocessing)
    found = Transfer(str(model.folder), model.card["sha256"], {})
    source, own = weights_for(network, model.network), network.state_dict()
    count = 0
    for name, tensor in own.items():
        theirs = source.get(name)
        if theirs is None:
            found.missing.append(name)
        elif list(labels) != model.labels and is_of_labels(name, tensor, labels):
            if len(tensor) != len(labels) or theirs.shape != (len(model.labels), *tensor.shape[1:]):
                found.other_shapes.append(f"{name} (other labels)")
                continue
            found.labels = [label for label in labels if label in model.labels]
            found.new_labels = [label for label in labels if label not in model.labels]
            rows = [list(labels).index(label) for label in found.labels]
            found.weights[name] = tensor.clone()
            found.weights[name][rows] = theirs[[model.labels.index(label) for label in found.labels]]
            count += tensor[rows].numel()
        elif theirs.shape != tensor.shape:
            shapes = f"{name} {tuple(theirs.shape)}, here {tuple(tensor.shape)}"
            resized = interpolate_positions(name, theirs, tensor.shape, network)
            if resized is None:
                found.other_shapes.append(shapes)
                continue
            found.weights[name] = resized
            found.interpolated.append(shapes)
            count += tensor.numel()
        else:
            found.weights[name] = theirs
            found.taken.append(name)
            count += tensor.numel()
    found.unused = [name for name in source if name not in own]
    found.numbers = count, sum(tensor.numel() for tensor in own.values())
    shared = {name for name, _ in network.named_parameters() if not OF_LABELS & set(name.split("."))} & set(found.taken)
    share = count / found.numbers[1]
    if not shared or share < least:
        kinds = [type(one).__name__ for one in (model.network, network)]
        differ = f": it is a {kinds[0]}, this one a {kinds[1]}" * (kinds[0] != kinds[1])
        example = f"; other shapes, such as {found.other_shapes[0]}" if found.other_shapes else ""
        taken = f"only {count:,} of the {found.numbers[1]:,} parameters" if shared else "no weights"
        way = f"; take the shape of its network, or go on with --init_from_least {math.floor(1e4 * share) / 1e4:g}"
        text = f"shares {taken} with the config's network{differ}{example}{way * bool(shared)}"
        raise InputError(f"init_from {model.folder}: {text}")
    return found


def interpolate_positions(name: str, table: Tensor, shape: torch.Size, network: nn.Module) -> Tensor | None:
    """Interpolate learned positions of a square of tokens, one of `POSITIONS`, for another; `None` of anything else.

    In timm's networks the positions of class tokens and registers may lead; they stay as they are.
    """
    if name not in POSITIONS:
        return None
    inner = network.network if isinstance(network, TimmModel) else network
    prefix = 0 if getattr(inner, "no_embed_class", False) else getattr(inner, "num_prefix_tokens", 0)
    side, new_side = (math.isqrt(max(sizes[-2] - prefix, 0)) for sizes in (table.shape, shape))
    is_square = (side**2 + prefix, new_side**2 + prefix) == (table.shape[-2], shape[-2])
    if not is_square or table.shape[-1] != shape[-1] or table.numel() != table.shape[-2:].numel():
        return None
    tokens = table.view(1, *table.shape[-2:])
    return resample_abs_pos_embed(tokens, [new_side, new_side], num_prefix_tokens=prefix).reshape(shape)


def weights_for(network: nn.Module, source: nn.Module) -> dict[str, Tensor]:
    """The weights of the source by the names that `network` has for them.

    The head over the encoder's tokens is `head` in most networks. In an encoder-decoder it is `ctc_head`, and `head` is
    that of the decoder.
    """
    to_decoder, from_decoder = (hasattr(one, "ctc_head") for one in (network, source))
    others = {"head": "ctc_head"} if to_decoder else {"head": "decoder_head", "ctc_head": "head"}
    renamed = others if to_decoder != from_decoder else {}
    parts = ((name.partition("."), tensor) for name, tensor in source.state_dict().items())
    return {renamed.get(first, first) + dot + rest: tensor for (first, dot, rest), tensor in parts}


def is_of_labels(name: str, tensor: Tensor, labels: Sequence[str]) -> bool:
    """Whether a tensor has a row for each label, and perhaps one more, such as that of the blank.

    The head of a `SpeechLabeler` has such rows for each frame of a token.
    """
    if tensor.dim() == 0 or not OF_LABELS & set(name.split(".")):
        return False
    return len(tensor) == len(labels) or len(tensor) % (len(labels) + 1) == 0


def check_front_end(model: Model, network: nn.Module, preprocessing: Mapping[str, Any]) -> None:
    """Refuse a model that takes another kind of input, another sample rate, other mel bins or other symbols."""
    kinds = {"image": "images", "sample_rate_hz": "audio", "symbols": "symbols"}
    theirs, ours = ([kinds[key] for key in kinds if key in keys] for keys in (model.preprocessing, preprocessing))
    if theirs != ours:
        raise InputError(f"init_from {model.folder}: a model of {theirs[0]}, but the data has {ours[0]}")
    for name, text in (("sample_rate_hz", "audio of {} Hz"), ("symbols", "the symbols {}")):
        theirs, ours = model.preprocessing.get(name), preprocessing.get(name)
        if theirs != ours:
            raise InputError(f"init_from {model.folder}: takes {text.format(theirs)}, the data has {text.format(ours)}")
    theirs, ours = first_log_mel(model.network), first_log_mel(network)
    if theirs is None or ours is None:
        return
    if torch.equal(theirs.filters, ours.filters) and described(theirs) == described(ours):
        return
    texts = f"{described(theirs)}, that of the config {described(ours)}"
    raise InputError(f"init_from {model.folder}: its front end has {texts}; set model.network.tokens as it has them")


def described(log_mel: LogMel) -> str:
    """The numbers of a front end in words."""
    window_ms = 1000 * log_mel.window_samples / log_mel.sample_rate_hz
    low, high = log_mel.centers_hz[[0, -1]].tolist()
    return f"{log_mel.mels} mel bins from {low:.0f} to {high:.0f} Hz, {window_ms:g} ms every {log_mel.hop_ms:g} ms"


def first_log_mel(network: nn.Module) -> LogMel | None:
    """The front end of a network for audio; `None` if it has no log-mel."""
    return next((module for module in network.modules() if isinstance(module, LogMel)), None)
