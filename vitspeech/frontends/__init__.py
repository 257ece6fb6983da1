"""Front ends: from images, waveforms or symbols to tokens."""

from vitspeech.frontends.augment import SpecAugment
from vitspeech.frontends.embedding import SpeechEmbedding
from vitspeech.frontends.frames import ConvolutionalFrames, StackedFrames
from vitspeech.frontends.log_mel import LogMel
from vitspeech.frontends.patches import ConvolutionalPatches, LinearPatches, WhitenedPatches
from vitspeech.frontends.speech import SpeechFrontend
from vitspeech.frontends.text import TextTokens

__all__ = [
    "ConvolutionalFrames",
    "ConvolutionalPatches",
    "LinearPatches",
    "LogMel",
    "SpecAugment",
    "SpeechEmbedding",
    "SpeechFrontend",
    "StackedFrames",
    "TextTokens",
    "WhitenedPatches",
]
