"""Tasks: loss, validation metrics and optimizer of a network, as Lightning modules.

The metrics of the test set are computed in `vitspeech.evaluation`, which each task calls.
"""

from vitspeech.tasks.classification import Classification
from vitspeech.tasks.distillation import Distillation
from vitspeech.tasks.joint import JointRecognition
from vitspeech.tasks.labeling import Labeling
from vitspeech.tasks.masked import MaskedPrediction
from vitspeech.tasks.recognition import Recognition
from vitspeech.tasks.spotting import Spotting
from vitspeech.tasks.task import Task, find_task
from vitspeech.tasks.transcription import Transcription

__all__ = [
    "Classification",
    "Distillation",
    "JointRecognition",
    "Labeling",
    "MaskedPrediction",
    "Recognition",
    "Spotting",
    "Task",
    "Transcription",
    "find_task",
]
