"""One multi-head attention core for images and speech: the names that configs and users write."""

from vitspeech.attention import Encoder, MultiHeadAttention, SelfAttentivePooling
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
    "Encoder",
    "ImageFolder",
    "MultiHeadAttention",
    "SelfAttentivePooling",
    "Shapes",
    "TimmModel",
    "ViT",
    "load",
    "predict",
]
