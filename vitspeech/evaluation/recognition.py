"""How well utterances are transcribed: word error rate, which errors, and the utterances that went worst."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule
from torch import nn
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.files import sha256
from vitspeech.data.utterances.word_sequences import manifest_file
from vitspeech.evaluation.report import Report
from vitspeech.inference.transcribe import Search, transcribe_batch
from vitspeech.metrics.word_errors import alignments, character_error_rate, confusions, score, worst


def evaluate(
    network: nn.Module, data: LightningDataModule, *, search: Search | None = None, progress: bool = True
) -> Report:
    """Word error rate on every test set of the data; the first set's are the report's own metrics.

    Where units are characters the character error rate counts, and the word error rate stands behind it.

    Args:
        network: Gives transcripts; in evaluation mode, on the device to use.
        data: `WordSequences`.
        search: How transcripts are looked for; `None` is `Search()`.
        progress: Show a bar.
    """
    search = search or Search()
    sums = {Path(manifest).stem: sha256(manifest_file(manifest)) for manifest in data.manifests}
    found, texts, listings = {}, [], []
    for name, utterances in data.test_sets().items():
        said = [" ".join(utterance.words) for utterance in utterances.utterances]
        heard = transcripts(network, data, utterances, search, progress)
        of_set = metrics(said, heard, characters=data.units == "characters")
        found[name] = of_set | ({"manifest_sha256": sums[name]} if name in sums else {})
        texts.append(f"{name}: {described(of_set)}")
        names = [f"{name}, {utterance.id}" for utterance in utterances.utterances]
        listings += [texts[-1], "", *listing(said, heard, names), ""]

    def write(folder: Path) -> Path:
        (folder / "errors.txt").write_text("\n".join(listings))
        return folder / "errors.txt"

    first, *others = found
    more = {"also": {name: found[name] for name in others}} if others else {}
    return Report({**found[first], "test_set": first, "search": asdict(search), **more}, "; ".join(texts), write)


@torch.inference_mode()
def transcripts(
    network: nn.Module, data: LightningDataModule, utterances: Dataset, search: Search, progress: bool
) -> list[str]:
    """What is understood of each utterance, in their order."""
    device, heard = next(network.parameters()).device, []
    for speech, _ in tqdm(data.evaluation_loader(utterances), desc="test", disable=not progress, leave=False):
        waveforms, lengths = data.normalize(speech.waveforms.to(device)), speech.lengths.to(device)
        heard += [found.text for found in transcribe_batch(network, data.labels, waveforms, lengths, search)]
    return heard


def metrics(said: Sequence[str], heard: Sequence[str], *, characters: bool) -> dict[str, Any]:
    """What a card says of a test set."""
    words = score(said, heard)
    first = {"character_error_rate": character_error_rate(said, heard)} if characters else {}
    return first | {
        "word_error_rate": words.wer,
        "interval_95": [round(words.wer_low, 4), round(words.wer_high, 4)],
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "words": words.words,
        "utterance_accuracy": words.utterance_accuracy,
        "utterances": words.utterances,
    }


def described(found: dict[str, Any]) -> str:
    """The metrics of one set to be read."""
    low, high = found["interval_95"]
    kinds = ", ".join(f"{found[kind]} {kind}" for kind in ("substitutions", "deletions", "insertions"))
    first = f"character_error_rate {found['character_error_rate']:.4f}, " if "character_error_rate" in found else ""
    return (
        f"{first}word_error_rate {found['word_error_rate']:.4f} ({low:.4f} to {high:.4f}; {kinds} in "
        f"{found['words']:,} words), {found['utterance_accuracy']:.1%} of {found['utterances']:,} utterances right"
    )


def listing(said: Sequence[str], heard: Sequence[str], names: Sequence[str]) -> list[str]:
    """Which words are taken for which, and the worst utterances with what was said above what was understood."""
    taken = [f"{count:4} × {reference} -> {found}" for reference, found, count in confusions(alignments(said, heard))]
    return ["Words taken for others:", *taken[:20], "", "The worst utterances:", *worst(said, heard, names, count=20)]
