"""A sequence of units for an utterance, as many as there are: connectionist temporal classification.

A batch is (waveforms (B, N) padded at the end, lengths (B,), units (B, U) padded with -1, spans).

Shapes: B batch, N samples, T tokens, C classes, of which the last is the blank, U units of a transcript.
"""

from collections.abc import Iterator
from typing import Any

import lightning
import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics.text import WordErrorRate

from vitspeech.decoding.ctc import GreedySearch, tokens_needed
from vitspeech.tasks.task import Task

PARTS = 4  # a batch of 1 to 7 words in one part is half padding, in four parts sorted by length a fifth


class Recognition(Task):
    """Trains a network that gives a row of logits a token by the probability of the transcript over all alignments.

    Graves et al. 2006 (doi:10.1145/1143844.1143891). `val_error_rate` is the share of wrong units of greedy search:
    the word error rate where units are words, the character error rate where they are characters.

    Args:
        network: Waveforms (B, N) and lengths (B,) to logits (B, T, C) and tokens (B,).
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        **training: What else `Task` takes: `warmup`, `decay`, `compile`.

    Raises:
        ValueError: If a share is not within 0 .. 1; in training, if an utterance is too short for its transcript.
    """

    monitor, mode = "val_error_rate", "min"
    sequences = True

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.error_rate = WordErrorRate()

    def sample(self, data: lightning.LightningDataModule) -> Tensor:
        """Utterances end to end, so that no padding counts."""
        (waveforms, lengths, *_), _ = data.train[torch.arange(min(256, len(data.train))), data.seed]
        rows = [row[:length] for row, length in zip(waveforms, lengths.tolist(), strict=True)]
        return data.normalize(torch.cat(rows))[None]

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Nats a unit."""
        units = (batch[2] >= 0).sum()
        return sum(self.part_loss(*part) for part in parts(batch)) / units

    def part_loss(self, waveforms: Tensor, lengths: Tensor, units: Tensor, spans: Tensor) -> Tensor:
        """The sum over a part of a batch, in nats."""
        logits, tokens = self.network(waveforms, lengths)
        return self.ctc_loss(logits, tokens, units)

    def ctc_loss(self, logits: Tensor, tokens: Tensor, units: Tensor) -> Tensor:
        """-log p(transcript), summed over utterances.

        Raises:
            ValueError: If an utterance has fewer tokens than its transcript needs, or the classes do not fit.
        """
        if logits.shape[-1] != len(self.labels) + 1:
            raise ValueError(f"the network has units={logits.shape[-1] - 1}, the data {len(self.labels)} labels")
        self.check_lengths(tokens, units)
        log_probs = logits.float().log_softmax(-1).transpose(0, 1)
        counts = (units >= 0).sum(1)
        return F.ctc_loss(log_probs, units.clamp(min=0), tokens, counts, blank=len(self.labels), reduction="sum")

    def check_lengths(self, tokens: Tensor, units: Tensor) -> None:
        """Refuse what would be an infinite loss.

        Raises:
            ValueError: If a transcript is empty, or longer than its utterance allows.
        """
        for count, said in zip(tokens.tolist(), transcripts(units), strict=True):
            if not said:
                raise ValueError("an utterance of the batch has an empty transcript")
            if count < tokens_needed(said):
                raise ValueError(
                    f"the utterance {self.text(said)!r}: its {count} tokens are fewer than the {tokens_needed(said)} "
                    "that CTC needs for this transcript; use a smaller stride"
                )

    def validation_step(self, batch: tuple[Tensor, ...], number: int) -> None:
        units = (batch[2] >= 0).sum()
        loss = 0.0
        for part in parts(batch):
            loss = loss + self.part_loss(*part)
            said = [" ".join(map(str, row)) for row in transcripts(part[2])]
            self.error_rate([" ".join(map(str, row)) for row in self.decoded(part[0], part[1])], said)
        self.check_finite(loss, "validation")
        self.log("val_loss", loss / units, prog_bar=True, sync_dist=True, batch_size=len(batch[0]))
        self.log("val_error_rate", self.error_rate, prog_bar=True, batch_size=len(batch[0]))

    def decoded(self, waveforms: Tensor, lengths: Tensor) -> list[tuple[int, ...]]:
        """The units of each utterance by greedy search."""
        logits, tokens = self.network(waveforms, lengths)
        found = []
        for rows, count in zip(logits.float().log_softmax(-1).cpu(), tokens.tolist(), strict=True):
            search = GreedySearch()
            search.push(rows[:count])
            found.append(search.best().units)
        return found

    def text(self, units: list[int]) -> str:
        """A transcript to be read."""
        labels = [self.labels[unit] for unit in units]
        return ("" if " " in self.labels else " ").join(labels)


def transcripts(units: Tensor) -> list[list[int]]:
    """The units of each utterance, without padding."""
    return [[unit for unit in row if unit >= 0] for row in units.tolist()]


def parts(batch: tuple[Tensor, ...]) -> Iterator[tuple[Any, ...]]:
    """The batch in parts of utterances of like length, each padded only to its own longest."""
    waveforms, lengths, units, spans = batch
    order = lengths.argsort()
    for rows in order.chunk(PARTS):
        longest, most = int(lengths[rows].max()), int((units[rows] >= 0).sum(1).max())
        words = int((spans[rows, :, 1] > 0).sum(1).max())
        yield waveforms[rows, :longest], lengths[rows], units[rows, :most], spans[rows, :words]
