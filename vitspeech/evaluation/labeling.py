"""Evaluation of frame labels: frame accuracy, and the F1 score of the words that the frames form."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule
from torch import Tensor, nn

from vitspeech.data.utterances.batch import SpeechBatch
from vitspeech.data.utterances.word_clips import SHORTEST_WORD_S
from vitspeech.evaluation.confusion import write_confusion
from vitspeech.evaluation.per_item import per_item
from vitspeech.evaluation.report import ItemTable, Report
from vitspeech.evaluation.speakers import accuracy_interval, describe_resampled, known_speakers, resampled
from vitspeech.metrics.word_times import TimedWord, frame_labels, word_f1, words_of

TOLERANCE_S = 0.05
COLUMNS = {"index": "d", "id": "", "reference": "", "hypothesis": "", "frames": "d", "correct_frames": "d"}


@torch.inference_mode()
def evaluate(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Report:
    """Frame accuracy, and the F1 score of words whose start and end are both within 50 ms of the true ones.

    A word is a run of one label that is at least as long as the shortest word of the protocol (`word_span`).

    Args:
        network: `SpeechLabeler`; in evaluation mode, on the device to use.
        data: `WordSequences` with words as units. If its test set has `speakers`, the interval resamples them.
        progress: Show a progress bar.
    """
    device, rate_hz = next(network.parameters()).device, data.preprocessing["sample_rate_hz"]
    none, times = len(data.labels), {"first_s": network.first_frame_ms / 1000, "frame_s": network.frame_ms / 1000}

    def compute(batch: tuple[SpeechBatch, int]) -> list[tuple]:
        """Pairs of true and predicted labels, counts by word, and the true and predicted words of each utterance."""
        entries, (speech, _) = [], batch
        waveforms = data.normalize(speech.waveforms.to(device))
        logits, frames = network(waveforms, speech.lengths.to(device))
        predictions, spans_s = logits.argmax(-1).cpu(), speech.spans / rate_hz
        true = frame_labels(spans_s, speech.units, silence=none, frames=predictions.shape[1], **times)
        for row, count in enumerate(frames.tolist()):
            pairs = true[row, :count] * (none + 1) + predictions[row, :count]
            right = true[row, :count] == predictions[row, :count]
            by_word = count_by_word(right, spans_s[row, speech.units[row] >= 0], **times)
            said = zip(speech.units[row].tolist(), spans_s[row].tolist(), strict=True)
            reference = [TimedWord(word, *span) for word, span in said if word >= 0]
            words = words_of(predictions[row, :count], silence=none, shortest_s=SHORTEST_WORD_S, **times)
            entries.append((pairs, by_word, reference, words))
        return entries

    loader = data.test_dataloader()
    entries = per_item(loader, compute, progress=progress)
    pairs, word_counts, references, hypotheses = map(list, zip(*entries, strict=True))
    counts = torch.bincount(torch.cat(pairs), minlength=(none + 1) ** 2).view(none + 1, none + 1)
    speakers = known_speakers(loader, len(references))
    values = metrics(counts, word_counts, speakers, word_f1(references, hypotheses, TOLERANCE_S), data)
    low, high = values["interval_95"]

    def write(folder: Path) -> Path:
        return write_confusion(counts, [*data.labels, "(none)"], folder, items="frames")

    said = references, hypotheses

    def table() -> ItemTable:
        ids = [utterance.id for utterance in loader.dataset.utterances]
        texts = [[" ".join(data.labels[word.label] for word in words) for words in side] for side in said]
        right = [int((labels // (none + 1) == labels % (none + 1)).sum()) for labels in pairs]
        rows = zip(range(len(ids)), ids, *texts, map(len, pairs), right, strict=True)
        return ItemTable(COLUMNS, rows)

    text = (
        f"frame_accuracy {values['frame_accuracy']:.4f} ({low:.4f} to {high:.4f}) of {values['frames']:,} frames, "
        f"{describe_resampled(values)}; words within {1000 * TOLERANCE_S:.0f} ms: F1 {values['word_f1']:.4f} "
        f"(precision {values['word_precision']:.4f}, recall {values['word_recall']:.4f}; by onset only F1 "
        f"{values['onset_f1']:.4f})"
    )
    return Report(values, text, write, table)


def count_by_word(right: Tensor, spans_s: Tensor, *, first_s: float, frame_s: float) -> tuple[Tensor, Tensor]:
    """Count the right frames, and all frames, of each word: those nearer to it than to the other words.

    Args:
        right: Whether the label of each frame is right, boolean (F,).
        spans_s: Start and end of each word in order of time, (W, 2).
        first_s: Start of frame 0, in seconds.
        frame_s: Length of a frame, in seconds.

    Shape:
        -> (W,), (W,); one entry for all frames if there are no words
    """
    centers_s = first_s + (torch.arange(len(right)) + 0.5) * frame_s
    middles_s = (spans_s[:-1, 1] + spans_s[1:, 0]) / 2  # of the pauses between words
    words, count = torch.bucketize(centers_s, middles_s), max(len(spans_s), 1)
    return torch.bincount(words, right.double(), minlength=count), torch.bincount(words, minlength=count)


def metrics(
    counts: Tensor,
    word_counts: Sequence[tuple[Tensor, Tensor]],
    speakers: Sequence[Sequence[str]] | None,
    words: dict[str, float],
    data: LightningDataModule,
) -> dict[str, Any]:
    """The metrics of a card.

    The interval resamples speakers with all frames of their words, or utterances if the speakers are unknown or there
    is only one, since neighboring frames are not independent.

    Args:
        counts: Confusion matrix of the frames.
        word_counts: `count_by_word` of each utterance.
        speakers: For each utterance the speaker of each word; `None` if unknown.
        words: Scores of the words, from `word_f1`.
        data: Names the test set.
    """
    names = None if speakers is None else {speaker for row in speakers for speaker in row}
    if names is None or len(names) < 2:
        groups = [number for number, (right, _) in enumerate(word_counts) for _ in right]
    else:
        # An utterance without words has no speaker, and is a group of its own.
        rows = (row or [number] for number, row in enumerate(speakers))
        groups = [speaker for row in rows for speaker in row]
    correct, totals = (torch.cat(parts) for parts in zip(*word_counts, strict=True))
    low, high = accuracy_interval(correct, totals, groups)
    frames = int(counts.sum())
    return {
        "frame_accuracy": int(counts.trace()) / frames,
        "interval_95": [round(low, 4), round(high, 4)],
        "frames": frames,
        "word_f1": words["f1"],
        "word_precision": words["precision"],
        "word_recall": words["recall"],
        "onset_f1": words["onset_f1"],
        "tolerance_ms": 1000 * TOLERANCE_S,
        "shortest_ms": 1000 * SHORTEST_WORD_S,
        "test_set": Path(data.manifests[0]).stem if data.manifests else "drawn",
        **resampled("utterances", None if names is None else len(names)),
    }
