"""Refusing networks that were pre-trained only, and have nothing to say about a recording yet."""

from torch import nn

from vitspeech.errors import InputError
from vitspeech.models import MaskedSpeechModel


def refuse_pretrained(network: nn.Module) -> None:
    """Refuse a network that predicts masked speech in place of labels or transcripts.

    Raises:
        InputError: If it is one; the message says what to do with it.
    """
    if isinstance(network, MaskedSpeechModel):
        raise InputError(
            f"{type(network).__name__} is pre-trained and outputs no labels or transcripts; train a model from it "
            "with `vitspeech train --init_from`"
        )
