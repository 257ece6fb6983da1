"""Released models: save, load, and release a finished run."""

from vitspeech.checkpoint.folder import CARD, CONFIG, WEIGHTS, Model, load, save
from vitspeech.checkpoint.network import build

__all__ = ["CARD", "CONFIG", "WEIGHTS", "Model", "build", "load", "save"]
