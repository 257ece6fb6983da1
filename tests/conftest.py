"""What several tests share: tiny finished runs, commands in this process, and skips without a GPU or real data."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hypothesis
import pytest
import torch
from filelock import FileLock
from matplotlib.figure import Figure
from running import Result, run_here
from tiny import TINY, TINY_LABELER, TINY_MASKED, TINY_SEQUENCES, TINY_SPEECH, TINY_SYMBOLS, TINY_TRANSCRIBER
from tqdm import tqdm

from vitspeech import commands
from vitspeech.data.clips import spoken_words
from vitspeech.data.images.shapes import save_example
from vitspeech.training.train import TrainingCLI

torch.set_num_threads(1)
# tqdm's own lock is shared with forked processes: one that is killed while it holds it blocks every later bar.
tqdm.set_lock(threading.RLock())
tqdm.monitor_interval = 0
hypothesis.settings.register_profile("suite", deadline=None)  # other processes may keep this machine busy
hypothesis.settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a GPU or real data where there is none, with that reason."""
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        if item.get_closest_marker("data") and not os.environ.get("VITSPEECH_DATA"):
            item.add_marker(pytest.mark.skip(reason="VITSPEECH_DATA names no folder of real data"))


@pytest.fixture(autouse=True)
def data_folder() -> Iterator[None]:
    """Fail a test that leaves another VITSPEECH_DATA behind: the tests after it would not find their data."""
    before = os.environ.get("VITSPEECH_DATA")
    yield
    assert os.environ.get("VITSPEECH_DATA") == before


def train_once(factory: pytest.TempPathFactory, name: str, arguments: Sequence[str]) -> Path:
    """The folder of a finished run, trained by the first of the parallel test processes that asks for it."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # shared by the processes of one session
    run = folder / "runs" / f"tiny-{name}".rstrip("-") / "0"
    run.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(run.parent / "lock"):
        if not (run / "model").is_dir():
            TrainingCLI([*arguments, f"--run={run}"]).train()
    return run


def finished(name: str, arguments: Sequence[str]) -> Callable[..., Path]:
    """A fixture: the folder of a finished run of the session, of a command line of `tiny`."""

    def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return train_once(tmp_path_factory, name, arguments)

    return pytest.fixture(scope="session", name=f"finished_{name}run".replace("-", "_"))(run)


finished_run = finished("", TINY)  # a ViT for shapes
finished_speech_run = finished("speech-", TINY_SPEECH)  # a truncated keyword spotter
finished_recognizer_run = finished("recognizer-", TINY_SEQUENCES)  # truncated, with CTC
finished_transcriber_run = finished("transcriber-", TINY_TRANSCRIBER)  # an encoder-decoder with a CTC head
finished_labeler_run = finished("labeler-", TINY_LABELER)  # a labeler of frames
finished_masked_run = finished("masked-", TINY_MASKED)  # an encoder pre-trained without transcripts
finished_symbols_run = finished("symbols-", TINY_SYMBOLS)  # an encoder-decoder that reverses symbols


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable[..., Result]:
    """Run `vitspeech VERB ARGUMENTS`."""

    def run(*arguments: object) -> Result:
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr(sys, "argv", ["vitspeech", *words])
        return run_here(commands.main, capsys)

    return run


@pytest.fixture
def star(tmp_path: Path) -> Path:
    """An image of a star."""
    save_example(str(tmp_path / "star.png"))
    return tmp_path / "star.png"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A recording of the synthesized words left, go."""
    spoken_words.save_example(tmp_path / "words.wav", ["left", "go"])
    return tmp_path / "words.wav"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that the test saves."""
    saved, save = [], Figure.savefig

    def keep(figure, *arguments, **options):
        saved.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return saved


@pytest.fixture
def unsaved(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn; none is written, which takes a second."""
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    return drawn
