"""How well a network does on the test set of its data, and how sure that is; for each task its own way."""

from lightning import LightningDataModule
from torch import nn

from vitspeech.evaluation import classification, labeling, recognition
from vitspeech.evaluation.report import Report
from vitspeech.inference.transcribe import Search, is_transcribing
from vitspeech.models import SpeechLabeler

__all__ = ["Report", "evaluate"]


def evaluate(
    network: nn.Module, data: LightningDataModule, *, search: Search | None = None, progress: bool = True
) -> Report:
    """Run the test set through the network once, in fp32, on the device that the network is on.

    Args:
        network: In evaluation mode.
        data: A data module with the network's labels.
        search: How transcripts are looked for, where there are any; `None` is `Search()`.
        progress: Show a bar.
    """
    if is_transcribing(network):
        return recognition.evaluate(network, data, search=search, progress=progress)
    if isinstance(network, SpeechLabeler):
        return labeling.evaluate(network, data, progress=progress)
    return classification.evaluate(network, data, progress=progress)
