"""Evaluation of frame labels: frame accuracy, and the F1 score of the words that the frames form."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning import LightningDataModule
from torch import Tensor, nn

from vitspeech.data.batches import SpeechBatch
from vitspeech.data.utterances.word_clips import SHORTEST_WORD_S
from vitspeech.data.utterances.word_sequences import manifest_file
from vitspeech.evaluation.confusion import write_confusion
from vitspeech.evaluation.report import (
    ItemTable,
    Report,
    accuracy_interval,
    describe_resampled,
    known_speakers,
    per_item,
    resampled,
)
from vitspeech.files import sha256
from vitspeech.inference.label_stream import LABEL_PROBABILITY, frame_times, words_of_frames
from vitspeech.metrics.word_times import TimedWord, frame_labels, matched, word_f1

TOLERANCE_S = 0.05
COLUMNS = {"index": "d", "id": "", "reference": "", "hypothesis": "", "frames": "d", "correct_frames": "d"}


@torch.inference_mode()
def evaluate(network: nn.Module, data: LightningDataModule, *, progress: bool = True) -> Report:
    """Frame accuracy, and the F1 score of words whose start and end are both within 50 ms of the true ones.

    The words are those that `LabelStream` returns. If the test set has `speakers`, the intervals resample them.
    """
    device, rate_hz = next(network.parameters()).device, data.preprocessing["sample_rate_hz"]
    none, times = len(data.labels), dict(zip(("first_s", "frame_s"), frame_times(network), strict=True))

    def compute(batch: tuple[SpeechBatch, int]) -> list[tuple]:
        """Pairs of true and predicted labels, counts by word, and the true and predicted words of each utterance."""
        entries, (speech, _) = [], batch
        waveforms = data.normalize(speech.waveforms.to(device))
        logits, frames = network(waveforms, speech.lengths.to(device))
        logits, spans_s = logits.cpu(), speech.spans / rate_hz
        predictions = logits.argmax(-1)
        true = frame_labels(spans_s, speech.units, silence=none, frames=predictions.shape[1], **times)
        for row, count in enumerate(frames.tolist()):
            pairs = true[row, :count] * (none + 1) + predictions[row, :count]
            right = true[row, :count] == predictions[row, :count]
            said = zip(speech.units[row].tolist(), spans_s[row].tolist(), strict=True)
            reference = [TimedWord(word, *span) for word, span in said if word >= 0]
            words = words_of_frames(network, range(none), logits[row, :count])
            entries.append((pairs, count_by_word(right, reference, words, **times), reference, words))
        return entries

    loader = data.test_dataloader()
    entries = per_item(loader, compute, progress=progress)
    pairs, word_counts, references, hypotheses = map(list, zip(*entries, strict=True))
    counts = torch.bincount(torch.cat(pairs), minlength=(none + 1) ** 2).view(none + 1, none + 1)
    speakers = known_speakers(loader, len(references))
    values = metrics(counts, word_counts, speakers, word_f1(references, hypotheses, TOLERANCE_S), data)
    low, high = values["interval_95"]
    f1_low, f1_high = values["word_f1_interval_95"]

    def write(folder: Path) -> Path:
        return write_confusion(counts, [*data.labels, "(none)"], folder, items="frames")

    def table() -> ItemTable:
        ids = [utterance.id for utterance in loader.dataset.utterances]
        sides = references, hypotheses
        texts = [[" ".join(data.labels[word.label] for word in words) for words in side] for side in sides]
        right = [int(counted.right.sum()) for counted in word_counts]
        rows = zip(range(len(ids)), ids, *texts, map(len, pairs), right, strict=True)
        return ItemTable(COLUMNS, rows)

    text = (
        f"frame_accuracy {values['frame_accuracy']:.4f} ({low:.4f} to {high:.4f}) of {values['frames']:,} frames, "
        f"{describe_resampled(values)}; words within {1000 * TOLERANCE_S:.0f} ms: F1 {values['word_f1']:.4f} "
        f"({f1_low:.4f} to {f1_high:.4f}; precision {values['word_precision']:.4f}, recall "
        f"{values['word_recall']:.4f}; by onset only F1 {values['onset_f1']:.4f})"
    )
    return Report(values, text, write, table)


class WordCounts(NamedTuple):
    """What is counted for each word of an utterance, (W,) each; one entry for everything if it has no words.

    Frames and recognized words belong to the word that they are nearest to.
    """

    right: Tensor  # frames with the right label
    frames: Tensor  # all frames
    matched: Tensor  # 1 if the word is recognized within the tolerance at both ends, else 0
    onsets: Tensor  # 1 if it is recognized within the tolerance at its start, else 0
    words: Tensor  # the true word and the recognized words, one each


def count_by_word(
    right: Tensor, reference: Sequence[TimedWord], words: Sequence[TimedWord], *, first_s: float, frame_s: float
) -> WordCounts:
    """Count right frames, boolean (F,), and recognized words by the true word that they are nearest to.

    The true words are in order of time. Frame f begins at `first_s` + f · `frame_s`.
    """
    count = max(len(reference), 1)
    middles_s = torch.tensor([(word.end_s + after.start_s) / 2 for word, after in pairwise(reference)])  # of pauses
    frames = torch.bucketize(first_s + (torch.arange(len(right)) + 0.5) * frame_s, middles_s)
    recognized = torch.bucketize(torch.tensor([(word.start_s + word.end_s) / 2 for word in words]), middles_s)

    def matches(onset_only: bool) -> Tensor:
        found = matched(reference, words, TOLERANCE_S, onset_only=onset_only)
        return torch.tensor(found or [False]).double()

    return WordCounts(
        torch.bincount(frames, right.double(), minlength=count),
        torch.bincount(frames, minlength=count),
        matches(onset_only=False),
        matches(onset_only=True),
        torch.bincount(recognized, minlength=count) + bool(reference),
    )


def metrics(
    counts: Tensor,
    word_counts: Sequence[WordCounts],
    speakers: Sequence[Sequence[str]] | None,
    words: dict[str, float],
    data: LightningDataModule,
) -> dict[str, Any]:
    """The metrics of a card.

    Intervals resample speakers with all frames of their words, or utterances if the speakers are unknown or there is
    only one, since neighboring frames are not independent.

    `counts` is the confusion matrix of the frames, `word_counts` has `count_by_word` of each utterance, `speakers` the
    speaker of each of its words, and `words` the scores of `word_f1`.
    """
    names = None if speakers is None else {speaker for row in speakers for speaker in row}
    # An utterance without words has no speaker, and is a group of its own.
    by_speaker = [()] * len(word_counts) if names is None or len(names) < 2 else speakers
    numbered = enumerate(zip(by_speaker, word_counts, strict=True))
    groups = [group for number, (row, counted) in numbered for group in row or [number] * len(counted.frames)]
    every = WordCounts(*(torch.cat(parts) for parts in zip(*word_counts, strict=True)))

    def interval(right: Tensor, totals: Tensor) -> list[float]:
        return [round(bound, 4) for bound in accuracy_interval(right, totals, groups)]

    frames = int(counts.sum())
    test_set = {"test_set": "drawn"}
    if data.manifests:
        manifest = manifest_file(data.manifests[0])
        test_set = {"test_set": manifest.stem, "manifest_sha256": sha256(manifest)}
    return {
        "frame_accuracy": int(counts.trace()) / frames,
        "interval_95": interval(every.right, every.frames),
        "frames": frames,
        "word_f1": words["f1"],
        "word_f1_interval_95": interval(every.matched, every.words / 2),  # F1 is matches / mean of true and recognized
        "word_precision": words["precision"],
        "word_recall": words["recall"],
        "onset_f1": words["onset_f1"],
        "onset_f1_interval_95": interval(every.onsets, every.words / 2),
        "tolerance_ms": 1000 * TOLERANCE_S,
        "shortest_ms": 1000 * SHORTEST_WORD_S,
        "least_probability": LABEL_PROBABILITY,
        **test_set,
        **resampled("utterances", None if names is None else len(names)),
    }
