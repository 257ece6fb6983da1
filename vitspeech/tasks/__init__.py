"""Lightning modules: what is trained, whatever the network."""

from vitspeech.tasks.classification import Classification

__all__ = ["Classification"]
