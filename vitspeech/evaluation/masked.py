"""Evaluation of masked prediction: accuracy and loss over the masked tokens of a test set, and one utterance drawn with
its masked spans and how probable the true code of each masked token is."""

from pathlib import Path

import numpy
import torch
from lightning import LightningDataModule
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.evaluation.report import (
    ItemTable,
    Report,
    accuracy_interval,
    describe_resampled,
    known_speakers,
    per_item,
    resampled,
)
from vitspeech.models import MaskedSpeechModel
from vitspeech.plots.spectrogram import cell_borders, draw_spectrogram
from vitspeech.plots.style import BLUE, EMPTY_GRAY, VERMILION


@torch.no_grad()
def draw_masked_speech(network: MaskedSpeechModel, waveform: Tensor, path: Path) -> None:
    """Draw the spectrogram with its masked spans, and the probability of the true code of each masked token."""
    logits, codes, mask = network(waveform)
    probabilities = logits.float().softmax(-1).gather(1, codes[:, None])[:, 0].cpu().numpy()
    right, masked = (logits.argmax(-1) == codes).cpu().numpy(), mask[0].numpy()
    log_mel, stride = network.tokens.log_mel, network.stride
    borders = cell_borders(
        mask.shape[1] * stride + network.first_frame,
        log_mel.hop_samples,
        log_mel.window_samples,
        log_mel.sample_rate_hz,
    )[network.first_frame :: stride]
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    draw_spectrogram(above, log_mel, waveform)
    for place in numpy.flatnonzero(masked):
        above.axvspan(borders[place], borders[place + 1], color=EMPTY_GRAY, linewidth=0)
    colors = numpy.where(right, BLUE, VERMILION)
    below.bar(borders[:-1][masked], probabilities, numpy.diff(borders)[masked], align="edge", color=colors)
    below.set(xlabel="time (s)", ylabel="probability of the true code")
    below.set_title("blue: the most probable code is the true one", fontsize="small")
    figure.savefig(path, dpi=120)


COLUMNS = {"index": "d", "masked_tokens": "d", "correct": "d", "loss": ".6f"}
FIGURE = "masked_speech.png"


@torch.inference_mode()
def evaluate(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Report:
    """Accuracy of the codes of masked tokens, and the cross-entropy beside that of predicting the share of each code.

    If the test set has `speakers`, the interval resamples them.
    """
    device = next(network.parameters()).device

    def compute(batch: tuple) -> list[tuple[float, int, Tensor]]:
        """The summed loss, the number of right codes and the true codes of each item."""
        waveforms, lengths = (batch[0].waveforms, batch[0].lengths) if data.items == "utterances" else (batch[0], None)
        logits, codes, mask = network(data.normalize(waveforms.to(device)), lengths)
        losses, right = F.cross_entropy(logits.float(), codes, reduction="none"), logits.argmax(-1) == codes
        counts = mask.sum(1).tolist()
        parts = (part.cpu().split(counts) for part in (losses, right, codes))
        return [(loss.sum().item(), int(some.sum()), of_item) for loss, some, of_item in zip(*parts, strict=True)]

    loader = data.test_dataloader()
    losses, correct, codes = zip(*per_item(loader, compute, progress=progress), strict=True)
    totals = [len(of_item) for of_item in codes]
    speakers = known_speakers(loader, len(totals))
    if speakers is not None:  # of an utterance, which has the speaker of each word, those of all its words together
        speakers = [names if isinstance(names, str) else " ".join(dict.fromkeys(map(str, names))) for names in speakers]
    groups = speakers if speakers and len(set(speakers)) > 1 else range(len(totals))
    low, high = accuracy_interval(torch.tensor(correct), torch.tensor(totals), groups)
    shares = torch.cat(codes).bincount().double() / sum(totals)
    values = {
        "masked_accuracy": sum(correct) / sum(totals),
        "interval_95": [round(low, 4), round(high, 4)],
        "masked_tokens": sum(totals),
        "masked_loss": sum(losses) / sum(totals),
        "marginal_loss": -shares.xlogy(shares).sum().item(),
        "commonest_code": shares.max().item(),
        **resampled(data.items, None if speakers is None else len(set(speakers))),
    }
    text = (
        f"masked_accuracy {values['masked_accuracy']:.4f} ({low:.4f} to {high:.4f}) of {sum(totals):,} masked tokens, "
        f"{describe_resampled(values)}; masked_loss {values['masked_loss']:.4f} nats (by the share of each code "
        f"{values['marginal_loss']:.4f}; the commonest is {values['commonest_code']:.1%})"
    )

    def write(folder: Path) -> Path:
        items, _, *_ = loader.dataset[torch.arange(1), 0]
        waveform = items.waveforms[:, : int(items.lengths[0])] if data.items == "utterances" else items
        draw_masked_speech(network, data.normalize(waveform.to(device)), folder / FIGURE)
        return folder / FIGURE

    def table() -> ItemTable:
        means = (loss / total for loss, total in zip(losses, totals, strict=True))
        return ItemTable(COLUMNS, zip(range(len(totals)), totals, correct, means, strict=True))

    return Report(values, text, write, table)
