"""Run an encoder-decoder for symbols on sequences that are given as text."""

from collections.abc import Iterable, Sequence

import torch

from vitspeech.checkpoint.model import Model
from vitspeech.decoding.search import Search
from vitspeech.errors import InputError
from vitspeech.inference.decode import check_search, transcribe_batch
from vitspeech.inference.transcript import Transcript, wrong_model

GREEDY = Search(beam=1)
MOST_SYMBOLS = 10_000  # of a sequence


@torch.inference_mode()
def transcribe_symbols(model: Model, texts: Iterable[str], *, search: Search | None = None) -> list[Transcript]:
    """The output of a model for each sequence of symbols, such as `3 1 4 1 5`.

    Args:
        model: From `vitspeech.load`, trained on symbols, as by `vitspeech.SymbolTasks`.
        texts: The sequences. Symbols are separated by spaces; spaces may be left out if all of the model's symbols are
            single characters.
        search: Search parameters; `None` is greedy search.

    Raises:
        InputError: If the model does not take symbols, or a sequence is empty, too long or has another symbol.
    """
    if "symbols" not in model.preprocessing:
        raise wrong_model(model, "does not take symbols")
    check_search(model, search)
    device, transcripts = next(model.network.parameters()).device, []
    for indices in [read_symbols(text, model.preprocessing["symbols"]) for text in texts]:
        symbols, lengths = torch.tensor([indices], device=device), torch.tensor([len(indices)])
        transcripts += transcribe_batch(model.network, model.labels, symbols, lengths, search or GREEDY)
    return transcripts


def read_symbols(text: str, symbols: Sequence[str]) -> list[int]:
    """The indices of the symbols of a text."""
    parts = list("".join(text.split())) if all(len(symbol) == 1 for symbol in symbols) else text.split()
    if not 1 <= len(parts) <= MOST_SYMBOLS:
        raise InputError(f"a sequence of {len(parts):,} symbols; it must have 1 .. {MOST_SYMBOLS:,}")
    indices = {symbol: index for index, symbol in enumerate(symbols)}
    foreign = next((part for part in parts if part not in indices), None)
    if foreign is not None:
        shown = ", ".join(symbols[:50]) + (", …" if len(symbols) > 50 else "")
        raise InputError(f"{foreign!r} of {text[:100]!r} is not a symbol of the model; its symbols are {shown}")
    return [indices[part] for part in parts]
