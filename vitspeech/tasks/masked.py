"""Masked prediction: pre-training of a speech encoder on sound alone, before the training of a recognizer.

A batch is (waveforms (B, N) padded at the end, lengths (B,), units, spans), or clips of one length (B, N) and their
labels. Units, spans and labels are not used.

Shapes: B batch, N samples, K masked tokens, C codes.
"""

from collections.abc import Iterator

import lightning
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy

from vitspeech.errors import InputError
from vitspeech.evaluation import masked as masked_prediction
from vitspeech.tasks.task import UtteranceTask, length_groups


class MaskedPrediction(UtteranceTask):
    """Trains a `MaskedSpeechModel`, by the cross-entropy of the codes of masked tokens.

    `val_loss` is that cross-entropy in nats per masked token; `val_accuracy` is the fraction of masked tokens whose
    code is predicted. The data are utterances or clips. Labels and transcripts are not used, but they are those of the
    saved model, since a data set has them.

    Args:
        network: `MaskedSpeechModel`, or a network with the same output and `codebook`.
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        **training: The other arguments of `Task`: `warmup`, `decay`, `compile`.
    """

    accepted = ("utterances", "clips")
    monitor, mode = "val_loss", "min"
    evaluation = masked_prediction

    def __init__(
        self, network: nn.Module, optimizer: OptimizerCallable = torch.optim.AdamW, **training: float | str | bool
    ) -> None:
        super().__init__(network, optimizer, **training)
        if not hasattr(network, "codebook"):
            name = type(network).__name__
            raise InputError(f"MaskedPrediction: {name} has no codes of masked tokens; use vitspeech.MaskedSpeechModel")

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.accuracy = MulticlassAccuracy(len(self.network.codebook), average="micro")

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        """Training utterances joined end to end (1, N), or training clips (B, N), augmented, as training feeds them."""
        if data.items == "utterances":
            return super().sample(data)
        indices = torch.linspace(0, len(data.train) - 1, min(2000, len(data.train))).long()  # may be sorted by label
        return data.training_batch(*data.train[indices, data.seed])[0]

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Cross-entropy per masked token, in nats."""
        loss, count, auxiliary = 0.0, 0, 0.0
        for waveforms, lengths in sounds(batch):
            logits, codes, _ = self.network(waveforms, lengths)
            loss, count = loss + F.cross_entropy(logits.float(), codes, reduction="sum"), count + len(codes)
            auxiliary = auxiliary + self.take_auxiliary_loss(len(waveforms) / len(batch[0]))
        return loss / count + auxiliary

    def validation_step(self, batch: tuple[Tensor, ...], number: int) -> None:
        loss, count = 0.0, 0
        for waveforms, lengths in sounds(batch):
            logits, codes, _ = self.network(waveforms, lengths)
            loss, count = loss + F.cross_entropy(logits.float(), codes, reduction="sum"), count + len(codes)
            self.accuracy.update(logits, codes)
        self.log_val_loss(loss / count, count)
        self.log("val_accuracy", self.accuracy, prog_bar=True, batch_size=len(batch[0]))


def sounds(batch: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The waveforms and lengths of a batch in groups of similar length; clips are one group without lengths."""
    if len(batch) == 2:
        yield batch[0], None
        return
    for waveforms, lengths, *_ in length_groups(batch):
        yield waveforms, lengths
