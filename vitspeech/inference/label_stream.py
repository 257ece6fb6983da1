"""The words of a stream with their starts and ends, from a model that labels frames.

Shapes: N samples, F frames, C classes (the last class is "none").
"""

from collections.abc import Sequence
from typing import Any

import numpy
from torch import Tensor, nn

from vitspeech.checkpoint.model import Model
from vitspeech.data.utterances.word_clips import SHORTEST_WORD_S
from vitspeech.decoding.unit_runs import Segment, UnitDecoder
from vitspeech.errors import InputError
from vitspeech.inference.stream import Listener, stream
from vitspeech.inference.transcript import is_transcribing, wrong_model
from vitspeech.models import SpeechLabeler

LABEL_PROBABILITY = 0.7  # least mean probability of a word of frame labels; in noise alone runs have about 0.2


def is_labeling(model: Model) -> bool:
    """Whether a model labels the frames of utterances; a model that transcribes does not."""
    return not is_transcribing(model) and (
        model.task == "vitspeech.Labeling" or isinstance(model.network, SpeechLabeler)
    )


def words_of_frames(network: nn.Module, labels: Sequence[Any], logits: Tensor) -> list[Segment]:
    """The words of a whole recording from the logits of its frames: (F, C) -> at most F words. See `LabelStream`."""
    decoder = frame_decoder(network, labels)
    return [*decoder.push(logits.float().cpu().numpy()), *decoder.flush()]


def frame_decoder(network: nn.Module, labels: Sequence[Any]) -> UnitDecoder:
    """The decoder of `LabelStream`."""
    first_s, hop_s = frame_times(network)
    least = {"shortest_s": SHORTEST_WORD_S, "least_probability": LABEL_PROBABILITY}
    return UnitDecoder(labels, hop_s=hop_s, first_s=first_s, **least)


def frame_times(network: nn.Module) -> tuple[float, float]:
    """Start of the first labeled frame and length of a frame, in seconds."""
    if not hasattr(network, "first_frame_ms") or not hasattr(network, "frame_ms"):
        name = type(network).__name__
        raise InputError(f"{name} has no first_frame_ms and frame_ms, from which the times of frames follow")
    return network.first_frame_ms / 1000, network.frame_ms / 1000


class LabelStream(Listener):
    """Takes samples and returns words: runs of one label of at least 150 ms, the shortest word of the protocol.

    The mean probability of a word's label is at least 0.7 (`LABEL_PROBABILITY`): in noise alone all labels are about
    equally probable, and the most probable one means nothing.

    The words are those of the full recording (`words_of_frames`), regardless of how the samples were split. Memory does
    not grow with the recording. A word is final when a frame after it has another label, or at the end.

    Args:
        model: A `SpeechLabeler` from `vitspeech.load`, with a limited `right` in every block.

    Attributes:
        latency_samples: Samples from a token's first one to the last one that its labels depend on.

    Raises:
        InputError: If the model can't be streamed, or does not label frames.
    """

    def __init__(self, model: Model) -> None:
        if not is_labeling(model):
            raise wrong_model(model, "does not label frames")
        self.stream, self.labels = stream(model), model.labels
        self.latency_samples = self.stream.latency_samples
        self.decoder = frame_decoder(model.network, model.labels)

    def restart(self) -> None:
        """Begin a new recording."""
        self.stream.restart()
        self.decoder.restart()

    def push(self, samples: Tensor | numpy.ndarray) -> list[Segment]:
        """Process the next samples, int16 or floats within ±1: (N,) -> the words that became final."""
        return self.decoder.push(self.stream.push(samples).float().cpu().numpy())

    def flush(self) -> list[Segment]:
        """End the recording: its last words. The stream can then be used for another recording."""
        last = self.decoder.push(self.stream.flush().float().cpu().numpy())
        return [*last, *self.decoder.flush()]
