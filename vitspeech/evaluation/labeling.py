"""How well frames are labeled, and how well the words that they make up stand in time."""

from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule
from torch import nn
from tqdm import tqdm

from vitspeech.evaluation.report import Report
from vitspeech.metrics.intervals import wilson_interval
from vitspeech.metrics.word_times import TimedWord, frame_labels, word_f1, words_of
from vitspeech.plots.confusion import draw_confusion_matrix

TOLERANCE_S = 0.05


@torch.inference_mode()
def evaluate(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Report:
    """Frame accuracy, and F1 of words whose start and end both lie within 50 ms of the true ones.

    Args:
        network: `SpeechLabeler`; in evaluation mode, on the device to use.
        data: `WordSequences` with words as units.
        progress: Show a bar.
    """
    device, rate_hz = next(network.parameters()).device, data.preprocessing["sample_rate_hz"]
    none, times = len(data.labels), {"first_s": network.first_frame_ms / 1000, "frame_s": network.frame_ms / 1000}
    counts = torch.zeros(none + 1, none + 1, dtype=torch.long)
    references, found = [], []
    for speech, _ in tqdm(data.test_dataloader(), desc="test", disable=not progress, leave=False):
        waveforms = data.normalize(speech.waveforms.to(device))
        logits, frames = network(waveforms, speech.lengths.to(device))
        given, spans_s = logits.argmax(-1).cpu(), speech.spans / rate_hz
        true = frame_labels(spans_s, speech.units, silence=none, frames=given.shape[1], **times)
        for row, count in enumerate(frames.tolist()):
            pairs = true[row, :count] * (none + 1) + given[row, :count]
            counts += torch.bincount(pairs, minlength=counts.numel()).view_as(counts)
            found.append(words_of(given[row, :count], silence=none, **times))
            said = zip(speech.units[row].tolist(), spans_s[row].tolist(), strict=True)
            references.append([TimedWord(word, *span) for word, span in said if word >= 0])
    metrics = described_by(counts, word_f1(references, found, TOLERANCE_S), data)

    def write(folder: Path) -> Path:
        draw_confusion_matrix(counts, [*data.labels, "(none)"], folder / "confusion_matrix.png", items="frames")
        return folder / "confusion_matrix.png"

    text = (
        f"frame_accuracy {metrics['frame_accuracy']:.4f} of {metrics['frames']:,} frames; words within "
        f"{1000 * TOLERANCE_S:.0f} ms: F1 {metrics['word_f1']:.4f} (precision {metrics['word_precision']:.4f}, recall "
        f"{metrics['word_recall']:.4f}; by their start alone F1 {metrics['onset_f1']:.4f})"
    )
    return Report(metrics, text, write)


def described_by(counts: torch.Tensor, words: dict[str, float], data: LightningDataModule) -> dict[str, Any]:
    """What a card says."""
    frames = int(counts.sum())
    share = int(counts.trace()) / frames
    low, high = wilson_interval(share, frames)
    return {
        "frame_accuracy": share,
        "interval_95": [round(low, 4), round(high, 4)],
        "frames": frames,
        "word_f1": words["f1"],
        "word_precision": words["precision"],
        "word_recall": words["recall"],
        "onset_f1": words["onset_f1"],
        "tolerance_ms": 1000 * TOLERANCE_S,
        "test_set": Path(data.manifests[0]).stem if data.manifests else "drawn",
    }
