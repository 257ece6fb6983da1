"""What several tests share: a tiny finished run of every task, and skips where there is no GPU or no real data."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from tiny import TINY, TINY_LABELER, TINY_SEQUENCES, TINY_SPEECH, TINY_TRANSCRIBER

from vitspeech.training.cli import TrainingCLI

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a GPU or real data where there is none, with that reason."""
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        if item.get_closest_marker("data") and not os.environ.get("VITSPEECH_DATA"):
            item.add_marker(pytest.mark.skip(reason="VITSPEECH_DATA names no folder of real data"))


def train_once(factory: pytest.TempPathFactory, name: str, arguments: Sequence[str]) -> Path:
    """The folder of a finished run, trained by the first of the parallel test processes that asks for it."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # shared by the processes of one session
    run = folder / "runs" / name / "0"
    run.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(run.parent / "lock"):
        if not (run / "model").is_dir():
            TrainingCLI([*arguments, f"--run={run}"]).train()
    return run


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny ViT trained for two epochs on 250 shapes."""
    return train_once(tmp_path_factory, "tiny", TINY)


@pytest.fixture(scope="session")
def finished_speech_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny truncated keyword spotter trained for two epochs on 100 synthesized words."""
    return train_once(tmp_path_factory, "tiny-speech", TINY_SPEECH)


@pytest.fixture(scope="session")
def finished_recognizer_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny truncated recognizer (CTC) trained for two epochs on 60 utterances of synthesized words."""
    return train_once(tmp_path_factory, "tiny-recognizer", TINY_SEQUENCES)


@pytest.fixture(scope="session")
def finished_transcriber_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder-decoder with a CTC head, trained on the same utterances."""
    return train_once(tmp_path_factory, "tiny-transcriber", TINY_TRANSCRIBER)


@pytest.fixture(scope="session")
def finished_labeler_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny labeler of frames, trained on the same utterances."""
    return train_once(tmp_path_factory, "tiny-labeler", TINY_LABELER)
