"""Evaluation of transcripts: error rates of words and characters, confused words, and the utterances with the most
errors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule
from torch import nn
from torch.utils.data import Dataset

from vitspeech.data.batches import SpeechBatch
from vitspeech.data.utterances.word_sequences import manifest_file
from vitspeech.decoding.search import Search
from vitspeech.evaluation import sequences
from vitspeech.evaluation.breakdown import Transcribed, write_breakdowns
from vitspeech.evaluation.report import ItemTable, Report, describe_resampled, per_item, resampled
from vitspeech.files import sha256, write_text
from vitspeech.inference.decode import transcribe_batch, with_default_beam
from vitspeech.metrics.intervals import wilson_interval
from vitspeech.metrics.word_errors import confused_characters, confusions, group_score, worst

COLUMNS = {"test_set": "", "id": "", "reference": "", "hypothesis": "", "errors": "d"}
LISTED = 20  # of the confusions, and of the utterances with errors


def evaluate(
    network: nn.Module, data: LightningDataModule, *, search: Search | None = None, progress: bool = True
) -> Report:
    """Error rates of words and characters on every test set. The metrics of the first set are the main ones.

    If units are characters or pieces, the character error rate comes first; if they are words, the word error rate.
    Symbols are evaluated by `vitspeech.evaluation.sequences`.
    """
    if getattr(data, "items", None) == "sequences":
        return sequences.evaluate(network, data, search=search, progress=progress)
    search = with_default_beam(search, network, data.labels)
    checksums = {Path(manifest).stem: sha256(manifest_file(manifest)) for manifest in data.manifests}
    characters = data.units != "words"
    results, texts, listings, test_sets = {}, [], [], []
    for name, utterances in data.test_sets().items():
        one = transcribed(name, utterances, transcripts(network, data, utterances, search, progress))
        values = metrics(one, characters=characters)
        results[name] = values | ({"manifest_sha256": checksums[name]} if name in checksums else {})
        texts.append(f"{name}: {describe(values)}")
        listings += [texts[-1], "", *listing(one, characters=characters), ""]
        test_sets.append(one)

    def write(folder: Path) -> Path:
        write_text("\n".join(listings), folder / "errors.txt")
        write_breakdowns(test_sets, folder, main="characters" if characters else "words")
        return folder / "errors.txt"

    def table() -> ItemTable:
        rows = (
            (one.name, *texts, alignment.errors)
            for one in test_sets
            for *texts, alignment in zip(one.ids, one.references, one.hypotheses, one.alignments, strict=True)
        )
        return ItemTable(COLUMNS, rows)

    first, *others = results
    also = {"also": {name: results[name] for name in others}} if others else {}
    values = {**results[first], "test_set": first, "search": search.settings(), **also}
    return Report(values, "; ".join(texts), write, table)


def transcribed(name: str, utterances: Dataset, hypotheses: Sequence[str]) -> Transcribed:
    """The transcripts of a test set, with speakers and durations if it knows them."""
    listed = list(utterances.utterances)
    seconds = getattr(utterances, "seconds", None)
    return Transcribed(
        name,
        [utterance.id for utterance in listed],
        [" ".join(utterance.words) for utterance in listed],
        hypotheses,
        getattr(utterances, "speakers", None),
        None if seconds is None else [float(duration) for duration in seconds],
    )


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


def metrics(one: Transcribed, *, characters: bool) -> dict[str, Any]:
    """The metrics of one test set, those of characters first if `characters`."""
    whole = group_score(one.errors)
    parts = (
        ("word_error_rate", "", "words", whole.words, whole.word_interval),
        ("character_error_rate", "character_", "characters", whole.characters, whole.character_interval),
    )
    values = {}
    for name, prefix, unit, counts, interval in reversed(parts) if characters else parts:
        values |= {
            name: counts.rate,
            f"{prefix}interval_95": [round(bound, 4) for bound in interval or of_one_utterance(counts.rate)],
            f"{prefix}substitutions": counts.substitutions,
            f"{prefix}deletions": counts.deletions,
            f"{prefix}insertions": counts.insertions,
            unit: counts.length,
        }
    right = torch.tensor([not alignment.errors for alignment in one.alignments])
    speakers = None if one.speakers is None else len({name for row in one.speakers for name in row})
    return {
        **values,
        "utterance_accuracy": right.double().mean().item(),
        "utterances": len(right),
        **resampled("utterances", speakers),
    }


def of_one_utterance(rate: float) -> tuple[float, float]:
    """The interval of a test set that cannot be resampled: Wilson's of one trial if it has no errors, else no width."""
    return (rate, rate) if rate else wilson_interval(0.0, 1)


def describe(values: dict[str, Any]) -> str:
    """The metrics of one test set as text: the word error rate, after that of characters if this is the main one."""
    first = ["character_error_rate"] if next(iter(values)) == "character_error_rate" else []
    rates = [describe_rate(values, name) for name in (*first, "word_error_rate")]
    return (
        f"{', '.join(rates)}, {values['utterance_accuracy']:.1%} of {values['utterances']:,} utterances right, "
        f"{describe_resampled(values)}"
    )


def describe_rate(values: dict[str, Any], name: str) -> str:
    """One of the two error rates as text."""
    prefix, unit = ("character_", "characters") if name.startswith("character") else ("", "words")
    low, high = values[f"{prefix}interval_95"]
    kinds = ", ".join(f"{values[prefix + kind]} {kind}" for kind in ("substitutions", "deletions", "insertions"))
    return f"{name} {values[name]:.4f} ({low:.4f} to {high:.4f}; {kinds} in {values[unit]:,} {unit})"


def listing(one: Transcribed, *, characters: bool) -> list[str]:
    """The most frequent confusions of words, or also of characters, and the utterances with the most errors."""
    lines = ["Confused words:", *most_confused(confusions(one.alignments))]
    if characters:
        lines += ["", "Confused characters:", *most_confused(confused_characters(one.references, one.hypotheses))]
    utterances = worst(one.alignments, one.titles, count=LISTED)
    return [*lines, "", "The utterances with the most errors:", *utterances]


def most_confused(pairs: Sequence[tuple[str, str, int]]) -> list[str]:
    """The first pairs as lines; a space is visible."""
    shown = ([name.replace(" ", "␣") for name in pair] for *pair, _ in pairs[:LISTED])
    return [f"{count:4} × {true} -> {output}" for (true, output), (*_, count) in zip(shown, pairs, strict=False)]
