"""What several tests share: tiny finished runs of every task, and where real data is."""

import os
from pathlib import Path

import pytest
import torch
from tiny import TINY, TINY_LABELER, TINY_SEQUENCES, TINY_SPEECH, TINY_TRANSCRIBER

from vitspeech.training.cli import TrainingCLI

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU or real data where there is none, and say so."""
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        if item.get_closest_marker("data") and not os.environ.get("VITSPEECH_DATA"):
            item.add_marker(pytest.mark.skip(reason="VITSPEECH_DATA names no folder of real data"))


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny ViT trained for two epochs on 250 shapes."""
    run = tmp_path_factory.mktemp("runs") / "tiny" / "0"
    TrainingCLI([*TINY, f"--run={run}"]).train()
    return run


@pytest.fixture(scope="session")
def finished_speech_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny truncated recognizer trained for two epochs on 100 synthesized words."""
    run = tmp_path_factory.mktemp("runs") / "tiny-speech" / "0"
    TrainingCLI([*TINY_SPEECH, f"--run={run}"]).train()
    return run


@pytest.fixture(scope="session")
def finished_recognizer_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny truncated recognizer (CTC) trained for two epochs on 60 utterances of synthesized words."""
    run = tmp_path_factory.mktemp("runs") / "tiny-recognizer" / "0"
    TrainingCLI([*TINY_SEQUENCES, f"--run={run}"]).train()
    return run


@pytest.fixture(scope="session")
def finished_transcriber_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder-decoder with a CTC head, trained on the same."""
    run = tmp_path_factory.mktemp("runs") / "tiny-transcriber" / "0"
    TrainingCLI([*TINY_TRANSCRIBER, f"--run={run}"]).train()
    return run


@pytest.fixture(scope="session")
def finished_labeler_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny labeler of frames, trained on the same."""
    run = tmp_path_factory.mktemp("runs") / "tiny-labeler" / "0"
    TrainingCLI([*TINY_LABELER, f"--run={run}"]).train()
    return run
