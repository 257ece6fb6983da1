"""Front ends: from images, waveforms or symbols to tokens."""

from vitspeech.frontends.frames import ConvolutionalFrames, StackedFrames
from vitspeech.frontends.log_mel import LogMel
from vitspeech.frontends.patches import ConvolutionalPatches, LinearPatches, WhitenedPatches
from vitspeech.frontends.spec_augment import SpecAugment
from vitspeech.frontends.speech_tokens import SpeechTokens
from vitspeech.frontends.text_tokens import TextTokens

__all__ = [
    "ConvolutionalFrames",
    "ConvolutionalPatches",
    "LinearPatches",
    "LogMel",
    "SpecAugment",
    "SpeechTokens",
    "StackedFrames",
    "TextTokens",
    "WhitenedPatches",
]
