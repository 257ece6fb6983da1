"""The attention core: PyTorch alone, independent of images and audio."""

from vitspeech.attention.block import ConvolutionModule, DropPath, EncoderBlock
from vitspeech.attention.config import DecoderConfig, EncoderConfig
from vitspeech.attention.convolution import QuadraticAttention, attention_from_convolution
from vitspeech.attention.decoder import Decoder, DecoderBlock, DecoderCache
from vitspeech.attention.encoder import Encoder
from vitspeech.attention.masks import causal_mask, padding_mask, window_mask
from vitspeech.attention.multihead import MultiHeadAttention
from vitspeech.attention.pooling import ClassToken, MeanPooling, SelfAttentivePooling, redundancy_penalty
from vitspeech.attention.positions import (
    FixedPositions,
    LearnedPositions,
    RelativePositions,
    Rotary,
    Rotary2d,
    SinusoidalPositions,
    sinusoidal,
    sinusoidal_2d,
)
from vitspeech.attention.scores import (
    NORMALIZERS,
    SCORES,
    Additive,
    Cosine,
    Dot,
    General,
    ScaledDot,
    Score,
    register_score,
)
from vitspeech.attention.windowed.truncated import truncated_attention

__all__ = [
    "NORMALIZERS",
    "SCORES",
    "Additive",
    "ClassToken",
    "ConvolutionModule",
    "Cosine",
    "Decoder",
    "DecoderBlock",
    "DecoderCache",
    "DecoderConfig",
    "Dot",
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "EncoderConfig",
    "FixedPositions",
    "General",
    "LearnedPositions",
    "MeanPooling",
    "MultiHeadAttention",
    "QuadraticAttention",
    "RelativePositions",
    "Rotary",
    "Rotary2d",
    "ScaledDot",
    "Score",
    "SelfAttentivePooling",
    "SinusoidalPositions",
    "attention_from_convolution",
    "causal_mask",
    "padding_mask",
    "redundancy_penalty",
    "register_score",
    "sinusoidal",
    "sinusoidal_2d",
    "truncated_attention",
    "window_mask",
]
