"""Layers by name, and their outputs arranged on grids: the common form in which images and audio are measured.

Shapes: B batch, C channels, R rows, W columns, T tokens, M mel bins. For audio, rows are times and columns are mel
bins; there is a single column once the mel bins have become channels.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches

from torch import Tensor, nn

from vitspeech.errors import InputError

LAYOUTS = {
    "NCHW": "channels, rows, columns",
    "NHWC": "rows, columns, channels",
    "tokens": "tokens of a square image in raster order, channels",
    "frames": "times, channels",
    "NCT": "channels, times",
    "mel": "times, mel bins",
}
INPUT = ""  # the name of the network's input


@dataclass(frozen=True)
class Layer:
    """A module of a network, by name, and the layout of its output.

    Args:
        name: As in `named_modules`; "" is the network's input.
        layout: Of the output after the batch axis: `NCHW`, `NHWC`, `tokens` (B, T, C), `frames` (B, T, C), `NCT` or
            `mel` (B, T, M).
        class_tokens: Number of leading `tokens` without a position in the image: class tokens and registers.

    Raises:
        InputError: If the layout is unknown, or class tokens are given for a layout other than `tokens`.
    """

    name: str
    layout: str = "NCHW"
    class_tokens: int = 0

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise InputError(f"layout={self.layout!r} is unknown; known: {', '.join(LAYOUTS)}")
        if self.class_tokens < 0 or (self.class_tokens and self.layout != "tokens"):
            raise InputError(f"class_tokens={self.class_tokens} with layout {self.layout!r}")

    @property
    def in_time(self) -> bool:
        """Whether positions are times."""
        return self.layout in ("frames", "NCT", "mel")

    def grid(self, output: Tensor) -> Tensor:
        """The layer's output as (B, C, R, W).

        Raises:
            InputError: If its number of dimensions does not fit the layout, or its tokens do not form a square.
        """
        if output.ndim != (4 if self.layout in ("NCHW", "NHWC") else 3):
            raise InputError(f"layer {self.name!r} gives {tuple(output.shape)}, which is not laid out as {self.layout}")
        if self.layout == "NHWC":
            return output.movedim(-1, 1)
        if self.layout == "frames":
            return output.transpose(1, 2)[..., None]
        if self.layout == "NCT":
            return output[..., None]
        if self.layout == "mel":
            return output[:, None]
        if self.layout == "tokens":
            side = math.isqrt(max(output.shape[1] - self.class_tokens, 0))
            if not side or side**2 != output.shape[1] - self.class_tokens:
                count = f"{output.shape[1]} tokens, {self.class_tokens} of them class tokens,"
                raise InputError(f"layer {self.name!r} gives {count} which do not form a square")
            return output[:, self.class_tokens :].unflatten(1, (side, side)).permute(0, 3, 1, 2)
        return output


def find_module(network: nn.Module, name: str) -> nn.Module:
    """The module with that name.

    Raises:
        InputError: If there is none; the message lists close names.
    """
    modules = dict(network.named_modules(remove_duplicate=False))
    if name in modules and name != INPUT:
        return modules[name]
    close = get_close_matches(name, modules, n=5, cutoff=0.4)
    raise InputError(f"{type(network).__name__} has no layer {name!r}; close names: {', '.join(close) or 'none'}")


@contextmanager
def record_outputs(network: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Record the outputs of the named layers in each forward pass within the context, ready for differentiation.

    A layer that runs several times leaves its last output. An output that requires no gradient (log-mel frames, since
    waveforms are data) becomes a leaf of the graph.

    Raises:
        InputError: If a layer is not in the network (on entry), or does not return a tensor (when it runs).
    """
    outputs: dict[str, Tensor] = {}

    def record(name: str, output: Tensor) -> Tensor:
        if not isinstance(output, Tensor):
            raise InputError(f"layer {name!r} gives a {type(output).__name__}, not a tensor")
        outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
        # The network continues with a copy, because the next module may change it in place.
        return outputs[name].clone()

    modules = {name: find_module(network, name) for name in names if name != INPUT}
    handles = [
        module.register_forward_hook(lambda _, __, output, name=name: record(name, output))
        for name, module in modules.items()
    ]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()
