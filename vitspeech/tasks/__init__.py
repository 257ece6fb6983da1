"""Lightning modules: what is trained, whatever the network."""

from vitspeech.tasks.classification import Classification
from vitspeech.tasks.labelling import Labelling
from vitspeech.tasks.recognition import Recognition
from vitspeech.tasks.transcription import Transcription

TASKS = {
    "classification": Classification,
    "labelling": Labelling,
    "recognition": Recognition,
    "transcription": Transcription,
}

__all__ = ["TASKS", "Classification", "Labelling", "Recognition", "Transcription"]
