"""The table of released models, from their cards."""

from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Any

from vitspeech.checkpoint.card import METRICS
from vitspeech.checkpoint.model import CARD, read_card
from vitspeech.files import read_text, write_text

NAMES = {name: metric.short for name, metric in METRICS.items() if metric.short}
SHOWN = ("name", "metrics", "parameters", "seeds", "minutes", "hardware", "commit")


def write_table(folder: Path) -> Path:
    """Rewrite the table of released models in `folder/README.md` from their cards, and return that file.

    The text around the table is kept.
    """
    cards = [read_card(path, SHOWN) for path in sorted(folder.glob(f"*/{CARD}"))]
    readme = folder / "README.md"
    text = read_text(readme) if readme.exists() else "# Released models\n"
    introduction, header, rest = text.partition("\n| model |")
    after = dropwhile(lambda line: line.startswith("|"), rest.splitlines()[1:])
    marked = introduction.endswith("-->")  # the table stands between the marks of scripts/tables.py
    before = introduction if header and marked else f"{introduction.rstrip()}\n"
    write_text("\n".join([before, *table(cards), *after]) + "\n", readme)
    return readme


def table(cards: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of a Markdown table with one row per card."""
    lines = [
        "| model | parameters | test set | mean ± sd (seeds) | minutes | hardware | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    for card in cards:
        values, spreads = percentages(card["metrics"])
        seeds = f"{spreads} ({len(card['seeds'])})" if spreads else "one seed"
        numbers = f"{card['parameters'] / 1e6:.2f} M | {values} | {seeds}"
        commits = ", ".join(f"`{commit}`" for commit in of_all_starts(card, "commit"))
        origin = f"{card['minutes']:.0f} | {', '.join(of_all_starts(card, 'hardware'))} | {commits}"
        lines.append(f"| `{card['name']}` | {numbers} | {origin} |")
    return lines


def of_all_starts(card: dict[str, Any], name: str) -> list[str]:
    """The commits, or the hardware, that a run was started and resumed with, each once."""
    return list(dict.fromkeys(start[name] for start in (card, *card.get("resumed", []))))


def recognizes_words(metrics: dict[str, Any]) -> bool:
    """Whether a card is of a recognizer whose units are words, so that the word error rate is its first metric."""
    return next(iter(metrics), "") == "word_error_rate"


def percentages(metrics: dict[str, Any]) -> tuple[str, str]:
    """The accuracies or error rates of a card as text, and their mean ± standard deviation over seeds ("" for one)."""
    names = {name: text for name, text in NAMES.items() if name in metrics}
    if recognizes_words(metrics):
        names.pop("character_error_rate", None)
    values = [f"{text} {100 * metrics[name]:.2f} %" for name, text in names.items()]
    for test_set, others in metrics.get("also", {}).items():
        values += [f"{text} {100 * others[name]:.2f} % on {test_set}" for name, text in names.items()]
    spreads = [
        f"{text} {100 * metrics[f'{name}_mean']:.2f} ± {100 * metrics[f'{name}_sd']:.2f} %"
        for name, text in names.items()
        if f"{name}_sd" in metrics
    ]
    return ", ".join(values), ", ".join(spreads)
