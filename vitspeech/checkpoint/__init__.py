"""Released models: save, load, and release a finished run."""

from vitspeech.checkpoint.build import build
from vitspeech.checkpoint.model import CARD, CONFIG, WEIGHTS, Model, load, save

__all__ = ["CARD", "CONFIG", "WEIGHTS", "Model", "build", "load", "save"]
