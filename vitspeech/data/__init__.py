"""Data sets, read once and augmented in batches."""

from vitspeech.data.augment import Augment
from vitspeech.data.cifar import Cifar

__all__ = ["Augment", "Cifar"]
