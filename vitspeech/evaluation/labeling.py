"""Evaluation of frame labels: frame accuracy, and the F1 score of the words that the frames form."""

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
    """Frame accuracy, and the F1 score of words whose start and end are both within 50 ms of the true ones.

    Args:
        network: `SpeechLabeler`; in evaluation mode, on the device to use.
        data: `WordSequences` with words as units.
        progress: Show a progress bar.
    """
    device, rate_hz = next(network.parameters()).device, data.preprocessing["sample_rate_hz"]
    none, times = len(data.labels), {"first_s": network.first_frame_ms / 1000, "frame_s": network.frame_ms / 1000}
    counts = torch.zeros(none + 1, none + 1, dtype=torch.long)
    references, hypotheses = [], []
    for speech, _ in tqdm(data.test_dataloader(), desc="test", disable=not progress, leave=False):
        waveforms = data.normalize(speech.waveforms.to(device))
        logits, frames = network(waveforms, speech.lengths.to(device))
        predictions, spans_s = logits.argmax(-1).cpu(), speech.spans / rate_hz
        true = frame_labels(spans_s, speech.units, silence=none, frames=predictions.shape[1], **times)
        for row, count in enumerate(frames.tolist()):
            pairs = true[row, :count] * (none + 1) + predictions[row, :count]
            counts += torch.bincount(pairs, minlength=counts.numel()).view_as(counts)
            hypotheses.append(words_of(predictions[row, :count], silence=none, **times))
            words = zip(speech.units[row].tolist(), spans_s[row].tolist(), strict=True)
            references.append([TimedWord(word, *span) for word, span in words if word >= 0])
    values = metrics(counts, word_f1(references, hypotheses, TOLERANCE_S), data)

    def write(folder: Path) -> Path:
        draw_confusion_matrix(counts, [*data.labels, "(none)"], folder / "confusion_matrix.png", items="frames")
        return folder / "confusion_matrix.png"

    text = (
        f"frame_accuracy {values['frame_accuracy']:.4f} of {values['frames']:,} frames; words within "
        f"{1000 * TOLERANCE_S:.0f} ms: F1 {values['word_f1']:.4f} (precision {values['word_precision']:.4f}, recall "
        f"{values['word_recall']:.4f}; by onset only F1 {values['onset_f1']:.4f})"
    )
    return Report(values, text, write)


def metrics(counts: torch.Tensor, words: dict[str, float], data: LightningDataModule) -> dict[str, Any]:
    """The metrics of a card, from the counts of frames and the scores of words."""
    frames = int(counts.sum())
    accuracy = int(counts.trace()) / frames
    low, high = wilson_interval(accuracy, frames)
    return {
        "frame_accuracy": accuracy,
        "interval_95": [round(low, 4), round(high, 4)],
        "frames": frames,
        "word_f1": words["f1"],
        "word_precision": words["precision"],
        "word_recall": words["recall"],
        "onset_f1": words["onset_f1"],
        "tolerance_ms": 1000 * TOLERANCE_S,
        "test_set": Path(data.manifests[0]).stem if data.manifests else "drawn",
    }
