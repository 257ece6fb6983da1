"""Joint recognition: CTC with a decoder that only helps to train the encoder.

Shapes: B batch, T tokens, U units.
"""

from typing import Any

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn

from vitspeech.errors import InputError
from vitspeech.models import SpeechTranscriber
from vitspeech.tasks.recognition import Recognition
from vitspeech.tasks.transcription import Transcription

RECOGNIZER_ARGUMENTS = ("units", "tokens", "encoder", "positions")  # those that SpeechTranscriber has, too


class JointRecognition(Transcription):
    """Trains a recognizer by CTC together with a decoder, and leaves the decoder out of the trained model.

    The loss is that of `Transcription` (Kim, Hori and Watanabe 2017, arXiv:1609.06773). The trained model is a
    `SpeechRecognizer` of the task `Recognition`: the encoder and its CTC head. It streams if the look-ahead of the
    encoder is limited. `val_error_rate` is the error rate of greedy search over the outputs of CTC.

    Args:
        network: A `SpeechTranscriber` with a CTC head, not of a class derived from it.
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        ctc_weight: Share of CTC in the loss, above 0; the decoder has the rest.
        label_smoothing: Of the decoder, as in `Transcription`.
        **training: The other arguments of `Task`: `warmup`, `decay`, `compile`.
    """

    accepted = ("utterances",)
    greedy_transcripts = Recognition.greedy_transcripts

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        ctc_weight: float = 0.3,
        label_smoothing: float = 0.0,
        **training: Any,
    ) -> None:
        if type(network) is not SpeechTranscriber:
            name = type(network).__name__
            raise InputError(f"JointRecognition: {name} cannot become a recognizer; use vitspeech.SpeechTranscriber")
        super().__init__(network, optimizer, ctc_weight=ctc_weight, label_smoothing=label_smoothing, **training)

    def trained_model(self, network: nn.Module, config: dict[str, Any]) -> tuple[nn.Module, dict[str, Any]]:
        """The recognizer, and the `model` of a config of `Recognition` that describes it."""
        arguments = config["init_args"]["network"].get("init_args") or {}
        kept = {name: value for name, value in arguments.items() if name in RECOGNIZER_ARGUMENTS}
        recognizer = {"class_path": "vitspeech.SpeechRecognizer", "init_args": kept}
        return network.recognizer(), {"class_path": "vitspeech.Recognition", "init_args": {"network": recognizer}}

    def loss_and_transcripts(
        self, waveforms: Tensor, lengths: Tensor, units: Tensor, spans: Tensor
    ) -> tuple[Tensor, list[tuple[int, ...]]]:
        output = self.network(waveforms, lengths, units.to(waveforms.device))
        return self.output_loss(*output, units), self.greedy_transcripts(output.ctc_logits, output.tokens)
