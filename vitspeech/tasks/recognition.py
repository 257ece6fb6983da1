"""Recognition: a sequence of units of variable length per utterance, by connectionist temporal classification (CTC).

A batch is (waveforms (B, N) padded at the end, lengths (B,), units (B, U) padded with -1, spans).

Shapes: B batch, N samples, T tokens, C classes, U units of a transcript; the last class is the blank.
"""

from collections.abc import Sequence
from typing import Any

import lightning
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.text import WordErrorRate

from vitspeech.decoding.alignment import tokens_needed
from vitspeech.decoding.ctc import GreedySearch
from vitspeech.decoding.vocabulary import to_text
from vitspeech.errors import InputError, check_fraction
from vitspeech.evaluation import recognition
from vitspeech.tasks.task import UtteranceTask, length_groups


class Recognition(UtteranceTask):
    """Trains a network that returns one row of logits per token, by the CTC loss.

    The loss is the negative log-probability of the transcript, summed over all alignments (Graves et al. 2006,
    doi:10.1145/1143844.1143891). `val_error_rate` is the error rate of greedy search over units: the word error rate if
    units are words, the character error rate if they are characters.

    Args:
        network: Waveforms (B, N) and lengths (B,) to logits (B, T, C) and the number of tokens (B,). In training the
            lengths are on the host; return the numbers there, too, since reading them from a GPU waits for it.
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        intermediate_ctc: w of intermediate CTC (Lee and Watanabe 2021, arXiv:2102.03216): the loss is
            (1 - w) · CTC + w · the mean CTC after the `intermediate_blocks`, by the same norm and head. 0 is without.
        intermediate_blocks: After which blocks, from 1; `None` is after half of them.
        **training: The other arguments of `Task`: `warmup`, `decay`, `compile`.
    """

    monitor, mode = "val_error_rate", "min"
    evaluation, transcribes = recognition, True
    changes_speed = False  # of training utterances, which may become too short
    ctc_weight = 1.0  # share of CTC in the loss

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        intermediate_ctc: float = 0.0,
        intermediate_blocks: Sequence[int] | None = None,
        **training: Any,
    ) -> None:
        super().__init__(network, optimizer, **training)
        check_fraction("intermediate_ctc", intermediate_ctc)
        self.intermediate_ctc, self.depths = intermediate_ctc, None
        if intermediate_blocks is not None and not intermediate_ctc:
            raise InputError(f"intermediate_blocks={intermediate_blocks} has no effect without intermediate_ctc")
        if intermediate_ctc:
            self.depths = intermediate_depths(network, intermediate_blocks)

    def bind_labels(self, data: lightning.LightningDataModule) -> None:
        super().bind_labels(data)
        # A faster utterance may have fewer tokens than its transcript needs: it then counts for nothing in this epoch.
        self.changes_speed = bool(getattr(getattr(data, "augment", None), "speed", 0))

    @property
    def leaves_out_short(self) -> bool:
        """Whether utterances of the present batch that are too short count for nothing: those of training."""
        return self.changes_speed and (self.training or self.is_tried_out)

    def smoke_test(self, data: lightning.LightningDataModule) -> None:
        self.bind_labels(data)
        for split in ("train", "validation"):
            self.check_durations(data, split)
        super().smoke_test(data)

    def check_durations(self, data: lightning.LightningDataModule, split: str) -> None:
        """Refuse utterances that are too short for their transcripts, where durations and units are known."""
        tokens, utterances = getattr(self.network, "tokens", None), getattr(data, split)
        is_known = tokens is not None and all(hasattr(utterances, name) for name in ("seconds", "units"))
        if not is_known or not self.ctc_weight:
            return
        counts = tokens.count((utterances.seconds * data.sample_rate_hz).round().long()).tolist()
        rows = zip(counts, utterances.units, strict=True)
        short = [place for place, (count, units) in enumerate(rows) if count < tokens_needed(units)]
        if short:
            first = short[0]
            name = f"{len(short):,} of the {len(counts):,} {split} utterances are too short, first "
            raise too_short(f"{name}{utterances.utterances[first].id}", counts[first], utterances.units[first])

    def setup(self, stage: str) -> None:
        super().setup(stage)
        self.error_rate = WordErrorRate()

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        """The loss per unit, in nats."""
        loss, units = 0.0, unit_count(batch[2])
        for group in length_groups(batch):
            loss = loss + self.group_loss(*group) / units + self.take_auxiliary_loss(len(group[0]) / len(batch[0]))
        return loss

    def group_loss(self, waveforms: Tensor, lengths: Tensor, units: Tensor, spans: Tensor) -> Tensor:
        """The sum of the loss over the utterances of a group, in nats."""
        if self.depths is None or not self.training:
            logits, tokens = self.network(waveforms, lengths)
            return self.ctc_loss(logits, tokens, units)
        (*intermediate, last), tokens = self.network(waveforms, lengths, self.depths)
        losses = [self.ctc_loss(logits, tokens, units) for logits in intermediate]
        weight = self.intermediate_ctc
        return (1 - weight) * self.ctc_loss(last, tokens, units) + weight * sum(losses) / len(losses)

    def ctc_loss(self, logits: Tensor, tokens: Tensor, units: Tensor) -> Tensor:
        """-log p(transcript), summed over utterances."""
        self.check_classes(logits, "the blank")
        counts, said = tokens.tolist(), transcripts(units)
        for count, transcript in zip(counts, said, strict=True):  # the loss would be infinite
            if count < tokens_needed(transcript) and not self.leaves_out_short:
                raise too_short(f"the utterance {self.text(transcript)!r}", count, transcript)
        log_probs = logits.float().log_softmax(-1).transpose(0, 1)
        targets = units.clamp(min=0).to(logits.device, non_blocking=True)
        lengths = tuple(counts), tuple(map(len, said))  # as numbers, since F.ctc_loss would read tensors from a GPU
        options = {"blank": len(self.labels), "reduction": "sum", "zero_infinity": self.leaves_out_short}
        return F.ctc_loss(log_probs, targets, *lengths, **options)

    def validation_step(self, batch: tuple[Tensor, ...], number: int) -> None:
        loss = 0.0
        for group in length_groups(batch):
            group_loss, units = self.loss_and_transcripts(*group)
            loss = loss + group_loss
            references = [" ".join(map(str, row)) for row in transcripts(group[2])]
            hypotheses = [" ".join(map(str, row)) for row in units]
            self.error_rate.update(hypotheses, references)
        units = unit_count(batch[2])
        self.log_val_loss(loss / units, units)
        self.log("val_error_rate", self.error_rate, prog_bar=True, batch_size=len(batch[0]))

    def loss_and_transcripts(
        self, waveforms: Tensor, lengths: Tensor, units: Tensor, spans: Tensor
    ) -> tuple[Tensor, list[tuple[int, ...]]]:
        """As `group_loss`, and the units of each utterance by greedy search, from one pass through the network."""
        logits, tokens = self.network(waveforms, lengths)
        return self.ctc_loss(logits, tokens, units), self.greedy_transcripts(logits, tokens)

    def greedy_transcripts(self, logits: Tensor, tokens: Tensor) -> list[tuple[int, ...]]:
        """The units of each utterance by greedy search: (B, T, C), (B,) -> B transcripts."""
        hypotheses = []
        for rows, count in zip(logits.float().log_softmax(-1).cpu(), tokens.tolist(), strict=True):
            search = GreedySearch()
            search.push(rows[:count])
            hypotheses.append(search.best().units)
        return hypotheses

    def text(self, units: list[int]) -> str:
        """A transcript as text."""
        return to_text([self.labels[unit] for unit in units], self.labels)


def intermediate_depths(network: nn.Module, blocks: Sequence[int] | None) -> list[int]:
    """The numbers of blocks after which there are losses; the last is that of all blocks."""
    encoder = getattr(network, "encoder", None)
    if not hasattr(encoder, "outputs"):
        raise InputError(f"intermediate_ctc: the encoder of {type(network).__name__} has no blocks of attention")
    depth = len(encoder.blocks)
    blocks = sorted(set([depth // 2] if blocks is None else blocks))
    if not blocks or blocks[0] < 1 or blocks[-1] >= depth:
        raise InputError(f"intermediate_blocks={blocks} are not within 1 .. {depth - 1}, before the last of {depth}")
    return [*blocks, depth]


def too_short(utterance: str, tokens: int, units: list[int]) -> InputError:
    """The error about an utterance with too few tokens for CTC."""
    return InputError(
        f"{utterance}: its {tokens} tokens are fewer than the {tokens_needed(units)} that CTC needs for this "
        "transcript; use a smaller stride, or longer units such as pieces"
    )


def transcripts(units: Tensor) -> list[list[int]]:
    """The units of each utterance, without padding."""
    return [[unit for unit in row if unit >= 0] for row in units.tolist()]


def unit_count(units: Tensor) -> int:
    """The number of units of all transcripts, without padding; if nothing is said, the number of utterances."""
    return sum(map(len, transcripts(units))) or len(units)
