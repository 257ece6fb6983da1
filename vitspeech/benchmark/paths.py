"""How many operations lie between two tokens: the path length of table 1 of Vaswani et al. 2017 (arXiv:1706.03762)."""

from math import ceil

from torch import nn

from vitspeech.attention import Encoder
from vitspeech.encoders import RecurrentEncoder, WindowMLP
from vitspeech.errors import InputError
from vitspeech.models import SpeechCNN


def path_length(network: nn.Module, seconds: float = 1.0) -> int | None:
    """The fewest operations that a signal passes from one token to the output of a later one.

    Vaswani et al. 2017, sec. 4, compare layers by the length of the paths that signals have to pass between distant
    positions: the shorter, the easier to learn a dependency. With n tokens between the two, an operation is

    - an attention layer: 1 with full attention, ⌈n / left⌉ if all blocks see `left` tokens back (with different windows
      the fewest blocks that reach n);
    - a step of a recurrent layer: n;
    - a convolution that reaches r tokens back, (kernel - 1) / 2 if it is centered: ⌈n / r⌉; so are the convolution
      modules between attention and MLP;
    - a window MLP: 1.

    There is no path where the blocks of the network together do not reach back n tokens. The stem, in which neighboring
    tokens share frames, and the pooling after the encoder are left out.

    Args:
        network: A speech network.
        seconds: Time between the two tokens.

    Raises:
        InputError: If its encoder is of an unknown kind.
    """
    tokens = network.tokens
    distance = ceil(round(1000 * seconds / tokens.milliseconds(tokens.hop_samples), 6))
    encoder = network if isinstance(network, SpeechCNN) else getattr(network, "encoder", None)
    if isinstance(encoder, RecurrentEncoder):
        return distance
    return fewest(distance, steps_back(encoder))


def steps_back(encoder: nn.Module | None) -> list[int | None]:
    """How many tokens each operation of an encoder reaches back; `None` is unlimited.

    Raises:
        InputError: If the encoder is of an unknown kind.
    """
    if isinstance(encoder, Encoder):
        modules = [block.convolution for block in encoder.blocks if block.convolution is not None]
        return [*encoder.left, *(module.left for module in modules)]
    if isinstance(encoder, WindowMLP):
        return [encoder.reach[0]]
    if isinstance(encoder, SpeechCNN):
        convolutions = [module for module in encoder.blocks.modules() if isinstance(module, nn.Conv1d)]
        return [convolution.kernel_size[0] // 2 for convolution in convolutions]
    raise InputError(f"{type(encoder).__name__}: the path length of this kind of encoder is unknown")


def fewest(distance: int, steps: list[int | None]) -> int | None:
    """The fewest of the steps that together cover a distance; `None` if all of them do not."""
    if None in steps:
        return 1
    covered = 0
    for number, step in enumerate(sorted(steps, reverse=True), 1):
        covered += step
        if covered >= distance:
            return number
    return None
