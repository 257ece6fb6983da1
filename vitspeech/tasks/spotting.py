"""Keyword spotting: clips classified as a stream classifies them, one after another.

Shapes: B batch, R clips per row, N samples of a clip, T tokens of a row, C classes.
"""

import math
from pathlib import Path
from typing import Any, Self

import lightning
import torch
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.checkpoint import load
from vitspeech.data.keywords.module import Keywords
from vitspeech.errors import InputError, check_number
from vitspeech.frontends.augment import SpecAugment, VocalTractPerturbation
from vitspeech.inference.spotting import check_pooling
from vitspeech.spotting.tune import settle
from vitspeech.tasks.classification import Classification

NO_KEYWORDS = ["unknown", "silence"]  # the last labels


class Spotting(Classification):
    """Trains a speech classifier on rows of several clips, so that each has a past and a future, as in a stream.

    A network that is trained on single clips has never heard anything before a word; in a room something precedes every
    word. Here a row is `clips_per_row` clips of the batch, one after another, and the logits of a clip are the mean of
    the logits of its tokens, as in `WordSpotter`. It costs as much as single clips. Validation and test are those of
    `Classification`.

    The cross-entropy of a softmax with the classes `unknown` and `silence` is a sum of two questions: whether there is
    a keyword, and which one (or which of the two others). `rejection` is the weight of the first one.

    Args:
        network: A speech classifier with mean pooling.
        optimizer: Class of `torch.optim` or `timm.optim` with its arguments.
        clips_per_row: Clips in a row, R. A batch that it does not divide has shorter rows.
        rejection: Weight of the question whether there is a keyword; 1 is the plain cross-entropy. Other values need
            labels that end with `unknown` and `silence`.
        frozen_blocks: First blocks of the encoder that keep the weights which the training starts from, as does the
            front end, whose masks and warps stay on: few recordings would make the network forget the voices of many
            people. 0: everything is trained.
        enough: Training recordings of every word of `Keywords`, from which on everything is trained after all.
        **classification: The other arguments of `Classification`: `label_smoothing`, `distillation` (teachers hear
            single clips), `warmup`, `decay`, `compile`.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerCallable = torch.optim.AdamW,
        *,
        clips_per_row: int = 4,
        rejection: float = 1.0,
        frozen_blocks: int = 0,
        enough: int = 30,
        **classification: Any,
    ) -> None:
        super().__init__(network, optimizer, **classification)
        check_number("clips_per_row", clips_per_row, 1, 64)
        check_number("rejection", rejection, 0, 100)
        if not hasattr(network, "forward_frames") or not hasattr(network, "pooling"):
            raise InputError(f"Spotting: {type(network).__name__} has no logits of single tokens; use SpeechClassifier")
        check_pooling(network)
        check_number("frozen_blocks", frozen_blocks, 0, len(getattr(network.encoder, "blocks", ())))
        self.clips_per_row, self.rejection, self.compiled_frames = clips_per_row, rejection, None
        check_number("enough", enough, 1)
        self.enough = enough
        self.kept = [network.tokens, *network.encoder.blocks[:frozen_blocks]] if frozen_blocks else []
        self.freeze(True)

    def freeze(self, is_frozen: bool) -> None:
        """Keep the front end and the first blocks as they are, or train them, too."""
        self.frozen = self.kept if is_frozen else []
        for part in self.kept:
            part.requires_grad_(not is_frozen)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for part in self.frozen:
            part.eval()
            for module in part.modules():
                if isinstance(module, (SpecAugment, VocalTractPerturbation)):  # what is heard still varies
                    module.train(mode)
        return self

    def bind_labels(self, data: lightning.LightningDataModule) -> None:
        super().bind_labels(data)
        if isinstance(data, Keywords):
            self.freeze(min(data.recorded[word] for word in data.words) < self.enough)
            self.train(self.training)
        if self.rejection != 1 and self.labels[-len(NO_KEYWORDS) :] != NO_KEYWORDS:
            last = ", ".join(self.labels[-len(NO_KEYWORDS) :])
            raise InputError(f"rejection={self.rejection}: the last labels must be unknown and silence, not {last}")

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        clips, labels = batch
        logits = self.clip_logits(clips)
        self.check_classes(logits)
        loss = F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        if self.rejection == 1:
            return self.distilled(loss, clips, logits)
        split = (logits.shape[-1] - len(NO_KEYWORDS), len(NO_KEYWORDS))
        words, others = (part.logsumexp(-1) for part in logits.float().split(split, dim=-1))
        is_word = (labels < split[0]).float()
        rejection = F.binary_cross_entropy_with_logits(words - others, is_word)
        return self.distilled(loss + (self.rejection - 1) * rejection, clips, logits)

    def remarks(self, folder: Path, data: lightning.LightningDataModule) -> list[str]:
        """Choose the threshold, and say what the spotter then misses and takes for a word in a stream."""
        if not isinstance(data, Keywords):
            return []
        try:
            return settle(folder, load(folder, trust=self.trust), data.folder, data.speech_folders)
        except (InputError, OSError) as error:  # such as speech of too few speakers; the run is finished all the same
            return [f"not measured as a spotter: {error}"]

    def on_train_epoch_start(self) -> None:
        """Find hard negatives after each quarter of the training but the last; see `Keywords.mined`."""
        data, epochs, epoch = self.trainer.datamodule, self.trainer.max_epochs or 0, self.trainer.current_epoch
        if isinstance(data, Keywords) and epoch and 4 * epoch // epochs > 4 * (epoch - 1) // epochs:
            self.network.eval()
            data.mine(lambda sound: self.network.forward_frames(sound.to(self.device)).cpu(), epoch)
            self.train()

    def clip_logits(self, clips: Tensor) -> Tensor:
        """The logits of clips in rows: (B, N) -> (B, C)."""
        per_row, samples = math.gcd(len(clips), self.clips_per_row), clips.shape[1]
        if self.compiled and self.compiled_frames is None:  # `network.compile` compiles its `forward` alone
            self.compiled_frames = torch.compile(self.network.forward_frames)
        forward_frames = self.compiled_frames or self.network.forward_frames
        logits = forward_frames(clips.reshape(-1, per_row * samples))
        tokens = self.network.tokens
        first = torch.arange(logits.shape[1], device=clips.device) * tokens.hop_samples
        starts = torch.arange(per_row, device=clips.device)[:, None] * samples
        inside = (first >= starts) & (first + tokens.window_samples <= starts + samples)  # (R, T)
        weights = inside.to(logits) / inside.sum(1, keepdim=True)
        return (weights @ logits).flatten(0, 1)
