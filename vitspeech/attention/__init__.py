"""The attention core: pure torch, knows neither pixels nor sound."""

from vitspeech.attention.encoder import DropPath, Encoder, EncoderBlock
from vitspeech.attention.masks import causal_mask, padding_mask, window_mask
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.attention.pooling import ClassToken, MeanPooling, SelfAttentivePooling, redundancy_penalty
from vitspeech.attention.positions import FixedPositions, LearnedPositions, sinusoidal, sinusoidal_2d

__all__ = [
    "ClassToken",
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "FixedPositions",
    "LearnedPositions",
    "MeanPooling",
    "MultiHeadAttention",
    "SelfAttentivePooling",
    "causal_mask",
    "padding_mask",
    "redundancy_penalty",
    "sinusoidal",
    "sinusoidal_2d",
    "window_mask",
]
