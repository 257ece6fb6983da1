"""A label for every frame of an utterance: which word is being said, or none.

A batch is (waveforms (B, N) padded at the end, lengths (B,), words (B, W) padded with -1, spans in samples (B, W, 2)).

Shapes: B batch, N samples, W words, F frames, C classes, of which the last is "none".
"""

import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy

from vitspeech.metrics.word_times import frame_labels
from vitspeech.tasks.recognition import Recognition, parts

OUTSIDE = -100  # frames that are padding count for nothing


class Labeling(Recognition):
    """Trains a network that gives a row of logits a frame, by the cross-entropy of each frame's label.

    `val_accuracy` is the share of frames with the right label.

    Args:
        network: Waveforms (B, N) and lengths (B,) to logits (B, F, C) and frames (B,); `first_frame_ms` and `frame_ms`
            say when they are. The class after the words is "none".
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        **training: What else `Task` takes: `warmup`, `decay`, `compile`.

    Raises:
        ValueError: If a share is not within 0 .. 1, or network and data do not have the same labels.
    """

    monitor, mode = "val_accuracy", "max"

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.sample_rate_hz = self.trainer.datamodule.preprocessing["sample_rate_hz"]
        self.accuracy = MulticlassAccuracy(len(self.labels) + 1, average="micro", ignore_index=OUTSIDE)

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Nats a frame."""
        return self.nats([self.rows(*part) for part in parts(batch)])

    def nats(self, found: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The mean over all frames of parts that are not padding, from their logits and labels."""
        frames = sum((labels != OUTSIDE).sum() for _, labels in found)
        return (
            sum(F.cross_entropy(rows, labels, ignore_index=OUTSIDE, reduction="sum") for rows, labels in found) / frames
        )

    def rows(self, waveforms: Tensor, lengths: Tensor, words: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and labels of all frames of a part: (B · F, C), (B · F,)."""
        if spans.shape[1] != words.shape[1]:
            raise ValueError("labeling needs the spans of words: this data has words without times, or other units")
        logits, frames = self.network(waveforms, lengths)
        if logits.shape[-1] != len(self.labels) + 1:
            raise ValueError(f"the network has classes={logits.shape[-1]}, the data {len(self.labels)} words and none")
        labels = frame_labels(
            spans / self.sample_rate_hz,
            words,
            silence=len(self.labels),
            frames=logits.shape[1],
            first_s=self.network.first_frame_ms / 1000,
            frame_s=self.network.frame_ms / 1000,
        )
        padded = torch.arange(logits.shape[1], device=labels.device) >= frames[:, None]
        return logits.float().flatten(0, 1), labels.masked_fill(padded, OUTSIDE).flatten()

    def validation_step(self, batch: tuple[Tensor, ...], number: int) -> None:
        found = [self.rows(*part) for part in parts(batch)]
        loss = self.nats(found)
        self.check_finite(loss, "validation")
        for rows in found:
            self.accuracy(*rows)
        self.log("val_loss", loss, prog_bar=True, sync_dist=True, batch_size=len(batch[0]))
        self.log("val_accuracy", self.accuracy, prog_bar=True, batch_size=len(batch[0]))
