"""Front ends: from images or waveforms to tokens."""

from vitspeech.frontends.frames import ConvolutionalFrames, StackedFrames
from vitspeech.frontends.log_mel import LogMel
from vitspeech.frontends.patches import ConvolutionalPatches, LinearPatches
from vitspeech.frontends.spec_augment import SpecAugment
from vitspeech.frontends.speech_tokens import SpeechTokens

__all__ = [
    "ConvolutionalFrames",
    "ConvolutionalPatches",
    "LinearPatches",
    "LogMel",
    "SpecAugment",
    "SpeechTokens",
    "StackedFrames",
]
