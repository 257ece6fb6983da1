"""The settings of a decoder in a model's card."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vitspeech.checkpoint.hub import on_hub
from vitspeech.checkpoint.model import CARD, find_folder, read_mapping
from vitspeech.decoding.spotting_settings import SpottingSettings
from vitspeech.errors import InputError
from vitspeech.files import check_target, write_text

SETTINGS, CHOICE = "spotting", "spotting_choice"  # keys of the card


def check_card(model: str | Path) -> None:
    """Refuse a card that cannot be written later, before the work is done; see `check_target`.

    Raises:
        InputError: If the model is on the hub.
    """
    if on_hub(model):
        raise InputError(
            f"{model}: the card of a model on the hub cannot be written; copy its folder, or use --dry-run"
        )
    check_target(find_folder(Path(model)) / CARD)


def save_settings(model: str | Path, settings: SpottingSettings, choice: dict[str, Any]) -> Path:
    """Write settings into the card of a model, and what is known about their choice; return the card's path."""
    card = find_folder(Path(model)) / CARD
    content = read_mapping(card, ()) | {SETTINGS: asdict(settings), CHOICE: choice}
    write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", card)
    return card
