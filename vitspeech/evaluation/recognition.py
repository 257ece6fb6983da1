"""Evaluation of transcripts: word error rate, confused words, and the utterances with the most errors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule
from torch import nn
from torch.utils.data import Dataset

from vitspeech.data.files import sha256
from vitspeech.data.utterances.batch import SpeechBatch
from vitspeech.data.utterances.word_sequences import manifest_file
from vitspeech.evaluation import sequences
from vitspeech.evaluation.per_item import per_item
from vitspeech.evaluation.report import ItemTable, Report
from vitspeech.evaluation.speakers import describe_resampled, resampled
from vitspeech.inference.transcribe import Search, transcribe_batch
from vitspeech.metrics.word_errors import alignments, character_error_rate, confusions, score, worst

COLUMNS = {"test_set": "", "id": "", "reference": "", "hypothesis": "", "errors": "d"}


def evaluate(
    network: nn.Module, data: LightningDataModule, *, search: Search | None = None, progress: bool = True
) -> Report:
    """Word error rate on every test set of the data. The metrics of the first set are the main ones.

    If units are characters, the character error rate comes first and the word error rate second. Symbols are evaluated
    by `vitspeech.evaluation.sequences`.

    Args:
        network: Outputs transcripts; in evaluation mode, on the device to use.
        data: `WordSequences` or `TranscribedAudio`.
        search: How transcripts are decoded; `None` is `Search()`.
        progress: Show a progress bar.
    """
    if getattr(data, "items", None) == "sequences":
        return sequences.evaluate(network, data, search=search, progress=progress)
    search = search or Search()
    checksums = {Path(manifest).stem: sha256(manifest_file(manifest)) for manifest in data.manifests}
    results, texts, listings, items = {}, [], [], []
    for name, utterances in data.test_sets().items():
        references = [" ".join(utterance.words) for utterance in utterances.utterances]
        hypotheses = transcripts(network, data, utterances, search, progress)
        characters = data.units == "characters"
        values = metrics(references, hypotheses, getattr(utterances, "speakers", None), characters=characters)
        results[name] = values | ({"manifest_sha256": checksums[name]} if name in checksums else {})
        texts.append(f"{name}: {describe(values)}")
        ids = [utterance.id for utterance in utterances.utterances]
        names = [f"{name}, {id_}" for id_ in ids]
        items += [(name, *item) for item in zip(ids, references, hypotheses, strict=True)]
        listings += [texts[-1], "", *listing(references, hypotheses, names), ""]

    def write(folder: Path) -> Path:
        (folder / "errors.txt").write_text("\n".join(listings))
        return folder / "errors.txt"

    def table() -> ItemTable:
        errors = (alignment.errors for alignment in alignments(*zip(*(item[2:] for item in items), strict=True)))
        return ItemTable(COLUMNS, ((*item, count) for item, count in zip(items, errors, strict=True)))

    first, *others = results
    also = {"also": {name: results[name] for name in others}} if others else {}
    values = {**results[first], "test_set": first, "search": search.settings(), **also}
    return Report(values, "; ".join(texts), write, table)


@torch.inference_mode()
def transcripts(
    network: nn.Module, data: LightningDataModule, utterances: Dataset, search: Search, progress: bool
) -> list[str]:
    """The decoded transcript of each utterance, in their order."""
    device = next(network.parameters()).device

    def compute(batch: tuple[SpeechBatch, int]) -> list[str]:
        speech, _ = batch
        waveforms, lengths = data.normalize(speech.waveforms.to(device)), speech.lengths.to(device)
        decoded = transcribe_batch(network, data.labels, waveforms, lengths, search)
        return [transcript.text for transcript in decoded]

    return per_item(data.evaluation_loader(utterances), compute, progress=progress)


def metrics(
    references: Sequence[str],
    hypotheses: Sequence[str],
    speakers: Sequence[Sequence[str]] | None,
    *,
    characters: bool,
) -> dict[str, Any]:
    """The metrics of one test set; `speakers` are those of each word, see `score`."""
    words = score(references, hypotheses, speakers)
    first = {"character_error_rate": character_error_rate(references, hypotheses)} if characters else {}
    return first | {
        "word_error_rate": words.wer,
        "interval_95": [round(words.wer_low, 4), round(words.wer_high, 4)],
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "words": words.words,
        "utterance_accuracy": words.utterance_accuracy,
        "utterances": words.utterances,
        **resampled("utterances", words.speakers),
    }


def describe(values: dict[str, Any]) -> str:
    """The metrics of one test set as text."""
    low, high = values["interval_95"]
    kinds = ", ".join(f"{values[kind]} {kind}" for kind in ("substitutions", "deletions", "insertions"))
    first = f"character_error_rate {values['character_error_rate']:.4f}, " if "character_error_rate" in values else ""
    return (
        f"{first}word_error_rate {values['word_error_rate']:.4f} ({low:.4f} to {high:.4f}; {kinds} in "
        f"{values['words']:,} words), {values['utterance_accuracy']:.1%} of {values['utterances']:,} utterances right, "
        f"{describe_resampled(values)}"
    )


def listing(references: Sequence[str], hypotheses: Sequence[str], names: Sequence[str]) -> list[str]:
    """The most frequent confusions, and the utterances with the most errors, each with reference and hypothesis."""
    pairs = confusions(alignments(references, hypotheses))
    confused = [f"{count:4} × {reference} -> {hypothesis}" for reference, hypothesis, count in pairs]
    utterances = worst(references, hypotheses, names, count=20)
    return ["Confused words:", *confused[:20], "", "The utterances with the most errors:", *utterances]
