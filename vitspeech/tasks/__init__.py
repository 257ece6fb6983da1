"""Lightning modules: what is trained, whatever the network."""

from vitspeech.tasks.classification import Classification
from vitspeech.tasks.labeling import Labeling
from vitspeech.tasks.recognition import Recognition
from vitspeech.tasks.transcription import Transcription

TASKS = {
    "classification": Classification,
    "labeling": Labeling,
    "recognition": Recognition,
    "transcription": Transcription,
}

__all__ = ["TASKS", "Classification", "Labeling", "Recognition", "Transcription"]
