"""Transcription: a sequence of units per utterance, by a decoder that attends to the utterance and writes unit by unit.

A batch is (waveforms (B, N) padded at the end, lengths (B,), units (B, U) padded with -1, spans).

Shapes: B batch, N samples, T tokens, C classes, U units of a transcript; the last class is the end of the transcript.
"""

from typing import Any

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.data.batches import process
from vitspeech.decoding.autoregressive import greedy
from vitspeech.errors import InputError, check_fraction
from vitspeech.inference.decode import longest_output
from vitspeech.tasks.recognition import Recognition
from vitspeech.tasks.sharding import is_sharded


class Transcription(Recognition):
    """Trains an encoder-decoder to predict each unit and the end, given the true units before it (teacher forcing).

    Inputs are utterances, or sequences of symbols (`SymbolTasks`).

    With `ctc_weight` w the loss is (1 - w) · cross-entropy + w · CTC over the encoder's tokens (Kim, Hori and Watanabe
    2017, arXiv:1609.06773), for which the network has a CTC head. `val_error_rate` is the error rate of greedy search
    with the decoder alone.

    Args:
        network: `SpeechTranscriber`, `Seq2Seq`, or a network with the same interface.
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        ctc_weight: w; 0 trains the decoder's cross-entropy alone.
        label_smoothing: Probability mass that is spread evenly over all classes.
        **training: The other arguments of `Task`: `warmup`, `decay`, `compile`.
    """

    accepted = ("utterances", "sequences")

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        ctc_weight: float = 0.0,
        label_smoothing: float = 0.0,
        **training: Any,
    ) -> None:
        if training.get("intermediate_ctc"):
            raise InputError("intermediate_ctc is for Recognition; here ctc_weight adds CTC to the loss")
        super().__init__(network, optimizer, **training)
        check_fraction("ctc_weight", ctc_weight)
        check_fraction("label_smoothing", label_smoothing)
        if bool(ctc_weight) != (network.ctc_head is not None):
            raise InputError(f"ctc_weight={ctc_weight}, but the network has {'a' if not ctc_weight else 'no'} CTC head")
        self.ctc_weight, self.label_smoothing = ctc_weight, label_smoothing

    def group_loss(self, waveforms: Tensor, lengths: Tensor, units: Tensor, spans: Tensor) -> Tensor:
        output = self.network(waveforms, lengths, units.to(waveforms.device, non_blocking=True))
        return self.output_loss(*output, units)

    def output_loss(self, logits: Tensor, ctc_logits: Tensor | None, tokens: Tensor, units: Tensor) -> Tensor:
        """The loss of a network's output, summed over utterances, in nats."""
        self.check_classes(logits, "the end")
        # The end follows the last unit; the padding after it is ignored.
        targets = F.pad(units, (0, 1), value=-1)
        targets = targets.scatter(1, (units >= 0).sum(1, keepdim=True), len(self.labels))
        targets = targets.to(logits.device, non_blocking=True)
        smoothing = self.label_smoothing if self.training else 0.0
        rows = logits.float().transpose(1, 2)
        loss = F.cross_entropy(rows, targets, ignore_index=-1, reduction="sum", label_smoothing=smoothing)
        if not self.ctc_weight:
            return loss
        ctc = self.ctc_loss(ctc_logits, tokens, units)
        return (1 - self.ctc_weight) * loss + self.ctc_weight * ctc

    def loss_and_transcripts(
        self, waveforms: Tensor, lengths: Tensor, units: Tensor, spans: Tensor
    ) -> tuple[Tensor, list[tuple[int, ...]]]:
        encoded, padding = self.network.encode(waveforms, lengths)
        logits = self.network.forward_decoder(encoded, padding, units.to(encoded.device))
        loss = self.output_loss(logits, self.network.forward_ctc(encoded), padding.sum(1), units)
        return loss, self.greedy_transcripts(encoded, padding)

    def greedy_transcripts(self, encoded: Tensor, padding: Tensor) -> list[tuple[int, ...]]:
        """The units of each utterance by greedy search with the decoder: (B, T, D), (B, T) -> B transcripts."""
        if process()[1] > 1 and is_sharded(self.network):  # they wait for one another in each step
            raise InputError(
                f"{type(self).__name__} can't divide its weights among processes, whose transcripts end at different "
                "steps; train it with --config trainer/ddp"
            )
        longest = [longest_output(self.network, count) for count in padding.sum(1).tolist()]
        cache = self.network.start(encoded, padding)
        hypotheses = greedy(self.network.step, cache, start=self.network.start_unit, longest=longest)
        return [hypothesis.units for hypothesis in hypotheses]
