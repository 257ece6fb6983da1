"""Labeling: one label per frame of an utterance, which is the word being spoken or "none".

A batch is (waveforms (B, N) padded at the end, lengths (B,), words (B, W) padded with -1, spans in samples (B, W, 2)).

Shapes: B batch, N samples, W words, F frames, C classes; the last class is "none".
"""

from collections.abc import Sequence

import lightning
import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics.classification import MulticlassAccuracy

from vitspeech.errors import InputError
from vitspeech.evaluation import labeling
from vitspeech.metrics.word_times import frame_labels
from vitspeech.tasks.task import UtteranceTask, length_groups

IGNORED = -100  # the label of padding frames, which count in neither loss nor accuracy


class Labeling(UtteranceTask):
    """Trains a network that returns one row of logits per frame, by the cross-entropy of each frame's label.

    `val_accuracy` is the fraction of frames with the right label.

    Args:
        network: Waveforms (B, N) and lengths (B,), which are on the host in training, to logits (B, F, C) and the
            number of frames (B,). Its attributes `first_frame_ms` and `frame_ms` give the times of the frames. The
            class after the words is "none".
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        **training: The other arguments of `Task`: `warmup`, `decay`, `compile`.
    """

    evaluation = labeling

    @classmethod
    def network_sizes(cls, labels: Sequence[str]) -> dict[str, int]:
        """`classes` counts the words and "none"."""
        return {"classes": len(labels) + 1}

    def bind_labels(self, data: lightning.LightningDataModule) -> None:
        super().bind_labels(data)
        self.sample_rate_hz = data.preprocessing["sample_rate_hz"]

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.accuracy = MulticlassAccuracy(len(self.labels) + 1, average="micro", ignore_index=IGNORED)

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Cross-entropy per frame, in nats."""
        groups, auxiliary = [], 0.0
        for group in length_groups(batch):
            groups.append(self.frames(*group))
            auxiliary = auxiliary + self.take_auxiliary_loss(len(group[0]) / len(batch[0]))
        return self.frame_loss(groups) + auxiliary

    def frame_loss(self, groups: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The mean cross-entropy of all frames that are not padding, from the logits and labels of each group."""
        count = sum((labels != IGNORED).sum() for _, labels in groups)
        return (
            sum(F.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum") for logits, labels in groups)
            / count
        )

    def frames(self, waveforms: Tensor, lengths: Tensor, words: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
        """The logits and labels of all frames of a group: (B · F, C), (B · F,)."""
        if spans.shape[1] != words.shape[1]:
            raise InputError(
                "Labeling needs the start and end of each word: this data has words without times, or its units are "
                "not words"
            )
        logits, counts = self.network(waveforms, lengths)
        self.check_classes(logits, "none")
        labels = frame_labels(
            spans.to(logits.device, non_blocking=True) / self.sample_rate_hz,
            words.to(logits.device, non_blocking=True),
            silence=len(self.labels),
            frames=logits.shape[1],
            first_s=self.network.first_frame_ms / 1000,
            frame_s=self.network.frame_ms / 1000,
        )
        counts = counts.to(labels.device, non_blocking=True)
        padding = torch.arange(logits.shape[1], device=labels.device) >= counts[:, None]
        return logits.float().flatten(0, 1), labels.masked_fill(padding, IGNORED).flatten()

    def validation_step(self, batch: tuple[Tensor, ...], number: int) -> None:
        groups = [self.frames(*group) for group in length_groups(batch)]
        self.log_val_loss(self.frame_loss(groups), sum((labels != IGNORED).sum() for _, labels in groups))
        for logits, labels in groups:
            self.accuracy.update(logits, labels)
        self.log("val_accuracy", self.accuracy, prog_bar=True, batch_size=len(batch[0]))
