"""One multi-head attention core for images and speech: the names that configs and users write."""

from vitspeech.attention import (
    Decoder,
    Encoder,
    MultiHeadAttention,
    RelativePositions,
    Rotary,
    SelfAttentivePooling,
    attention_from_convolution,
    truncated_attention,
)
from vitspeech.checkpoint import load
from vitspeech.data import Augment, Cifar, ImageFolder, Shapes
from vitspeech.inference import predict
from vitspeech.models import CNN, TimmModel, ViT
from vitspeech.tasks import Classification

__all__ = [
    "CNN",
    "Augment",
    "Cifar",
    "Classification",
    "Decoder",
    "Encoder",
    "ImageFolder",
    "MultiHeadAttention",
    "RelativePositions",
    "Rotary",
    "SelfAttentivePooling",
    "Shapes",
    "TimmModel",
    "ViT",
    "attention_from_convolution",
    "load",
    "predict",
    "truncated_attention",
]
