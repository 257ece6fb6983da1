"""One multi-head attention core for images and speech: the names that configs and users write."""

from vitspeech.attention import Encoder, MultiHeadAttention, SelfAttentivePooling
from vitspeech.data import Augment, Cifar
from vitspeech.models import CNN, TimmModel, ViT
from vitspeech.tasks import Classification

__all__ = [
    "CNN",
    "Augment",
    "Cifar",
    "Classification",
    "Encoder",
    "MultiHeadAttention",
    "SelfAttentivePooling",
    "TimmModel",
    "ViT",
]
