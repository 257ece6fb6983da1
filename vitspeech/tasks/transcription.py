"""A sequence of units for an utterance, said one after the other by a decoder that attends to the utterance.

A batch is (waveforms (B, N) padded at the end, lengths (B,), units (B, U) padded with -1, spans).

Shapes: B batch, N samples, T tokens, C classes, of which the last is the end, U units of a transcript.
"""

from typing import Any

import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.decoding.autoregressive import greedy
from vitspeech.tasks.recognition import Recognition
from vitspeech.tasks.task import check_share


class Transcription(Recognition):
    """Trains an encoder-decoder to say each unit, and then the end, given the true ones before it (teacher forcing).

    With `ctc_weight` w it is (1 - w) · cross-entropy + w · CTC over the encoder's tokens (Kim, Hori and Watanabe 2017,
    arXiv:1609.06773), which the network has a head for. `val_error_rate` is of greedy search from the start symbol.

    Args:
        network: `SpeechTranscriber`, or what works as it does.
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        ctc_weight: w; 0 trains the decoder's cross-entropy alone.
        label_smoothing: Share of the unit's weight spread over all classes.
        **training: What else `Task` takes: `warmup`, `decay`, `compile`.

    Raises:
        ValueError: If a share is not within 0 .. 1, or `ctc_weight` and the network's CTC head are not both there.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        ctc_weight: float = 0.0,
        label_smoothing: float = 0.0,
        **training: Any,
    ) -> None:
        super().__init__(network, optimizer, **training)
        check_share("ctc_weight", ctc_weight)
        check_share("label_smoothing", label_smoothing)
        if bool(ctc_weight) != (network.ctc_head is not None):
            raise ValueError(f"ctc_weight={ctc_weight}, but the network has {'a' if not ctc_weight else 'no'} CTC head")
        self.ctc_weight, self.label_smoothing = ctc_weight, label_smoothing

    def part_loss(self, waveforms: Tensor, lengths: Tensor, units: Tensor, spans: Tensor) -> Tensor:
        found = self.network(waveforms, lengths, units)
        if found.logits.shape[-1] != len(self.labels) + 1:
            raise ValueError(f"the network has units={found.logits.shape[-1] - 1}, the data {len(self.labels)} labels")
        # Behind the last unit comes the end, and what comes behind that does not count.
        wanted = F.pad(units, (0, 1), value=-1)
        wanted = wanted.scatter(1, (units >= 0).sum(1, keepdim=True), len(self.labels))
        smoothing = self.label_smoothing if self.training else 0.0
        logits = found.logits.float().transpose(1, 2)
        loss = F.cross_entropy(logits, wanted, ignore_index=-1, reduction="sum", label_smoothing=smoothing)
        if not self.ctc_weight:
            return loss
        ctc = self.ctc_loss(found.ctc_logits, found.tokens, units)
        return (1 - self.ctc_weight) * loss + self.ctc_weight * ctc

    def decoded(self, waveforms: Tensor, lengths: Tensor) -> list[tuple[int, ...]]:
        encoded, padding = self.network.encode(waveforms, lengths)
        # A word lasts a token at least: that bounds what a decoder that finds no end can say.
        sizes = {"start": self.network.start_unit, "batch": len(encoded), "longest": encoded.shape[1]}
        found = greedy(self.network.step, self.network.start(encoded, padding), **sizes)
        return [some.units[:count] for some, count in zip(found, padding.sum(1).tolist(), strict=True)]
