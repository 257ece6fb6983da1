"""The files of an exported folder that run it without vitspeech, copied as they are: `run.py` and what it imports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitspeech.data.images import pictures
from vitspeech.decoding import keywords, unit_runs

HERE = Path(__file__).parent


def runner(metadata: Mapping[str, Any]) -> dict[str, bytes]:
    """The content of `run.py` and of the files beside it, for a model with this metadata."""
    sources = {"run.py": HERE / f"{metadata['kind'].replace('-', '_')}.py"}
    sources["model_folder.py"] = HERE / "model_folder.py"
    shared = [pictures] if metadata["kind"] == "images" else []
    if metadata["kind"] == "stream":
        sources["stream_state.py"] = HERE / "stream_state.py"
        shared = [keywords if metadata["task"] == "classification" else unit_runs]
    sources |= {Path(module.__file__).name: Path(module.__file__) for module in shared}
    return {name: source.read_bytes() for name, source in sources.items()}
