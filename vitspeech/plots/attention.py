"""What a classifier attends to in one file: dispatch to images and speech."""

from pathlib import Path

from torch import nn

from vitspeech.attention import Encoder, MultiHeadAttention, SelfAttentivePooling
from vitspeech.checkpoint.folder import Model
from vitspeech.errors import InputError
from vitspeech.models import SpeechClassifier, TimmModel, ViT
from vitspeech.plots.image_attention import draw_image_attention
from vitspeech.plots.speech_attention import draw_speech_attention


def draw_attention(model: Model, file: Path, output: Path) -> None:
    """Draw what a classifier attends to in one image or recording.

    See `draw_image_attention` and `draw_speech_attention` for what the figures show.

    Args:
        model: From `vitspeech.load`; its network is a `ViT`, or a `SpeechClassifier` with attention in its encoder or
            in its pooling.
        file: The image or the recording.
        output: The figure's file: PNG, or another format that matplotlib knows by the file name's suffix.

    Raises:
        FileNotFoundError: If `file` or the folder of `output` does not exist.
        InputError: If the network is of another class or has no attention, or `file` is empty or broken.
    """
    check_drawable(model)
    draw = draw_image_attention if isinstance(model.network, ViT) else draw_speech_attention
    draw(model, file, output)


def check_drawable(model: Model) -> None:
    """Check that the attention of a model can be drawn.

    Raises:
        InputError: If its network is neither a `ViT` nor a `SpeechClassifier`, or has no attention.
    """
    network = model.network
    if not isinstance(network, ViT | SpeechClassifier):
        raise InputError(
            f"--attention draws ViT and SpeechClassifier; {type(network).__name__} {reason_not_drawn(network, model)}"
        )
    parts = (network.encoder, network.pooling)
    if not isinstance(parts[0], Encoder) and not isinstance(parts[1], SelfAttentivePooling):
        names = " and ".join(type(part).__name__ for part in parts)
        raise InputError(f"--attention draws the weights of attention and of SelfAttentivePooling; {names} have none")


def reason_not_drawn(network: nn.Module, model: Model) -> str:
    """Why the attention of a network can't be drawn."""
    if "units" in model.preprocessing:
        return "is drawn by `vitspeech transcribe --picture`"
    has_attention = any(isinstance(module, MultiHeadAttention) for module in network.modules())
    return "is not supported" if has_attention or isinstance(network, TimmModel) else "has no attention"
