"""From a picture to tokens: what stands before the encoder."""

from vitspeech.frontends.patches import ConvolutionalPatches, LinearPatches

__all__ = ["ConvolutionalPatches", "LinearPatches"]
