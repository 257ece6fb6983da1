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
from vitspeech.audio_stream import stream
from vitspeech.checkpoint import load
from vitspeech.data import (
    AudioFolder,
    Augment,
    Cifar,
    ImageFolder,
    Shapes,
    SpeechCommands,
    SpokenWords,
    WaveformAugment,
)
from vitspeech.frontends import SpecAugment, SpeechTokens
from vitspeech.inference import predict
from vitspeech.models import CNN, SpeechClassifier, SpeechCNN, TimmModel, ViT
from vitspeech.tasks import Classification

__all__ = [
    "CNN",
    "AudioFolder",
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
    "SpecAugment",
    "SpeechCNN",
    "SpeechClassifier",
    "SpeechCommands",
    "SpeechTokens",
    "SpokenWords",
    "TimmModel",
    "ViT",
    "WaveformAugment",
    "attention_from_convolution",
    "load",
    "predict",
    "stream",
    "truncated_attention",
]
