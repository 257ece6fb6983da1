"""The files of an exported folder that run it without vitspeech, copied as they are: `run.py` and what it imports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitspeech.decoding import keywords, unit_runs

HERE = Path(__file__).parent


def runner(metadata: Mapping[str, Any]) -> dict[str, bytes]:
    """The content of `run.py` and of the files beside it, for a model with this metadata."""
    sources = {"run.py": HERE / f"{metadata['kind'].replace('-', '_')}.py"}
    sources["model_folder.py"] = HERE / "model_folder.py"
    if metadata["kind"] == "stream":
        sources["stream_state.py"] = HERE / "stream_state.py"
        decoder = Path((keywords if metadata["task"] == "classification" else unit_runs).__file__)
        sources[decoder.name] = decoder
    return {name: source.read_bytes() for name, source in sources.items()}
