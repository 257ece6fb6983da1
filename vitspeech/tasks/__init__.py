"""Lightning modules: what is trained, whatever the network."""

from vitspeech.tasks.classification import Classification
from vitspeech.tasks.recognition import Recognition

TASKS = {"classification": Classification, "recognition": Recognition}

__all__ = ["TASKS", "Classification", "Recognition"]
