"""Evaluation of sequences of symbols: sequences that are wholly right, symbol errors, and both by length."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule
from torch import nn
from torch.utils.data import Dataset

from vitspeech.data.symbols import SymbolBatch
from vitspeech.decoding.search import Search
from vitspeech.evaluation.report import ItemTable, Report, per_item
from vitspeech.files import write_csv, write_text
from vitspeech.inference.decode import transcribe_batch
from vitspeech.inference.transcribe import GREEDY
from vitspeech.metrics.intervals import wilson_interval
from vitspeech.metrics.word_errors import Alignment, align
from vitspeech.plots.cross_attention import align_symbols, draw_alignments

COLUMNS = ["test_set", "input_symbols", "sequences", "sequence_accuracy", "low", "high", "symbol_error_rate"]
ITEM_COLUMNS = {"test_set": "", "index": "d", "input": "", "reference": "", "hypothesis": "", "errors": "d"}
DRAWN = 2  # sequences
LISTED = 20  # of the wrong sequences of each test set
Units = Sequence[int]


def evaluate(
    network: nn.Module, data: LightningDataModule, *, search: Search | None = None, progress: bool = True
) -> Report:
    """Sequence accuracy and symbol error rate on every test set. The metrics of the first set are the main ones.

    `search` says how outputs are decoded; `None` is greedy search.
    """
    search = search or GREEDY
    results, texts, listings, rows, items = {}, [], [], [], []
    for name, sequences in data.test_sets().items():
        outputs = decode(network, data, sequences, search, progress)
        aligned = [align(*pair) for pair in zip(sequences.outputs, outputs, strict=True)]
        results[name] = metrics(aligned)
        texts.append(f"{name}: {describe(results[name])}")
        listings += [texts[-1], "", *listing(data, sequences, outputs), ""]
        rows += by_length(name, sequences.inputs, aligned)
        texts_and_errors = zip(to_texts(data, sequences, outputs), aligned, strict=True)
        items += [(name, index, *text, one.errors) for index, (text, one) in enumerate(texts_and_errors)]
        if name == next(iter(results)):
            drawn = longest(sequences.inputs, outputs)

    def write(folder: Path) -> Path:
        write_text("\n".join(listings), folder / "errors.txt")
        write_csv(folder / "lengths.csv", COLUMNS, rows)
        names = data.preprocessing["symbols"], data.labels
        draw_alignments([align_symbols(network, *names, *pair) for pair in drawn], folder / "cross_attention.png")
        return folder / "errors.txt"

    first, *others = results
    also = {"also": {name: results[name] for name in others}} if others else {}
    values = {**results[first], "test_set": first, "search": search.settings(), **also}
    return Report(values, "; ".join(texts), write, lambda: ItemTable(ITEM_COLUMNS, items))


@torch.inference_mode()
def decode(
    network: nn.Module, data: LightningDataModule, sequences: Dataset, search: Search, progress: bool
) -> list[Units]:
    """The output units of each sequence, in their order."""
    device = next(network.parameters()).device

    def compute(batch: tuple[SymbolBatch, int]) -> list[Units]:
        symbols, _ = batch
        decoded = transcribe_batch(network, data.labels, symbols.symbols.to(device), symbols.lengths, search)
        return [transcript.indices for transcript in decoded]

    return per_item(data.evaluation_loader(sequences), compute, progress=progress)


def metrics(aligned: Sequence[Alignment]) -> dict[str, Any]:
    """The metrics of some sequences, from the alignment of each true output with the network's."""
    right = sum(not alignment.errors for alignment in aligned) / len(aligned)
    symbols = sum(alignment.length for alignment in aligned)
    low, high = wilson_interval(right, len(aligned))
    return {
        "sequence_accuracy": right,
        "interval_95": [round(low, 4), round(high, 4)],
        "symbol_error_rate": sum(alignment.errors for alignment in aligned) / symbols,
        "sequences": len(aligned),
        "symbols": symbols,
    }


def describe(values: dict[str, Any]) -> str:
    """The metrics of one test set as text."""
    low, high = values["interval_95"]
    return (
        f"sequence_accuracy {values['sequence_accuracy']:.4f} ({low:.4f} to {high:.4f}) of {values['sequences']:,} "
        f"sequences, symbol_error_rate {values['symbol_error_rate']:.4f} of {values['symbols']:,} symbols"
    )


def by_length(name: str, inputs: Sequence[Units], aligned: Sequence[Alignment]) -> list[tuple]:
    """One row of `COLUMNS` for each length of the inputs of a test set."""
    groups = defaultdict(list)
    for given, alignment in zip(inputs, aligned, strict=True):
        groups[len(given)].append(alignment)
    rows = []
    for length in sorted(groups):
        values = metrics(groups[length])
        numbers = (values["sequence_accuracy"], *values["interval_95"], values["symbol_error_rate"])
        rows.append((name, length, values["sequences"], *(f"{number:.4f}" for number in numbers)))
    return rows


def to_texts(data: LightningDataModule, sequences: Dataset, outputs: Sequence[Units]) -> Iterator[tuple[str, str, str]]:
    """Input, true output and output of each sequence, with symbols in place of their indices."""
    vocabularies = (data.preprocessing["symbols"], data.labels, data.labels)
    for row in zip(sequences.inputs, sequences.outputs, outputs, strict=True):
        yield tuple(" ".join(names[unit] for unit in units) for names, units in zip(vocabularies, row, strict=True))


def listing(data: LightningDataModule, sequences: Dataset, outputs: Sequence[Units]) -> list[str]:
    """Some of the sequences with errors: input, true output and output."""
    wrong = (texts for texts in to_texts(data, sequences, outputs) if texts[1] != texts[2])
    lines = []
    for given, true, output in islice(wrong, LISTED):
        lines += [f"IN:  {given}", f"REF: {true}", f"HYP: {output}", ""]
    return lines or ["No errors."]


def longest(inputs: Sequence[Units], outputs: Sequence[Units]) -> list[tuple[Units, Units]]:
    """The first few of the longest sequences of a test set, each with the network's output."""
    places = sorted(range(len(inputs)), key=lambda place: -len(inputs[place]))
    return [(inputs[place], outputs[place]) for place in places[:DRAWN]]
