"""Released folders altered as somebody would on purpose: with sums that fit."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from vitspeech.files import sha256


def seal(folder: Path) -> None:
    """Give the card the sums that fit."""
    card = json.loads((folder / "card.json").read_text())
    card |= {"sha256": sha256(folder / "model.safetensors"), "config_sha256": sha256(folder / "config.yaml")}
    (folder / "card.json").write_text(json.dumps(card))


def set_value(mapping: Any, keys: Sequence[str | int], value: object) -> None:
    """Set a value of nested mappings and lists; `keys` lead to it."""
    for key in keys[:-1]:
        mapping = mapping[key]
    mapping[keys[-1]] = value


def alter(folder: Path, *keys: str | int, to: object) -> None:
    """Set a value of the configuration, and seal it."""
    config = yaml.safe_load((folder / "config.yaml").read_text())
    set_value(config, keys, to)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    seal(folder)


def alter_card(folder: Path, *keys: str | int, to: object) -> None:
    """Set a value of the card."""
    card = json.loads((folder / "card.json").read_text())
    set_value(card, keys, to)
    (folder / "card.json").write_text(json.dumps(card))
