"""The attention core: pure torch, knows neither pixels nor sound."""

from vitspeech.attention.encoder import DropPath, Encoder, EncoderBlock
from vitspeech.attention.masks import causal_mask, padding_mask, window_mask
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.attention.pooling import ClassToken, MeanPooling, SelfAttentivePooling, redundancy_penalty
from vitspeech.attention.positions import (
    FixedPositions,
    LearnedPositions,
    RelativePositions,
    Rotary,
    sinusoidal,
    sinusoidal_2d,
)
from vitspeech.attention.scores import NORMALISERS, SCORES, Additive, Cosine, Dot, General, ScaledDot
from vitspeech.attention.truncated import truncated_attention

__all__ = [
    "NORMALISERS",
    "SCORES",
    "Additive",
    "ClassToken",
    "Cosine",
    "Dot",
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "FixedPositions",
    "General",
    "LearnedPositions",
    "MeanPooling",
    "MultiHeadAttention",
    "RelativePositions",
    "Rotary",
    "ScaledDot",
    "SelfAttentivePooling",
    "causal_mask",
    "padding_mask",
    "redundancy_penalty",
    "sinusoidal",
    "sinusoidal_2d",
    "truncated_attention",
    "window_mask",
]
