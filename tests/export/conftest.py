"""Released models and tiny graphs, exported once per test session."""

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from bare import make_bare
from filelock import FileLock
from tiny import ROOT

import vitspeech
from vitspeech.export import export
from vitspeech.export import folder as folders
from vitspeech.export.demo import UnavailableError, web_runtime

collect_ignore_glob = ["*"] if torch.__version__ < (2, 11) else []  # `vitspeech export` needs it


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the parallel test processes of one session share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def exported(shared: Path) -> Callable[..., Path]:
    """The folder of an exported released model: `exported("vit-cifar10")`; of two models, with attention weights.

    The first of the parallel test processes that asks for it exports it. Tests must not change the folder; copy it.
    """

    def export_once(name: str) -> Path:
        target = shared / "exported" / name
        target.parent.mkdir(exist_ok=True)
        with FileLock(target.with_suffix(".lock")):
            if not target.is_dir():
                attention = name in ("vit-cifar10", "speech-commands-truncated")
                export(vitspeech.load(ROOT / "checkpoints" / name), target, attention=attention)
        return target

    return export_once


@pytest.fixture(scope="session")
def graph(shared: Path, finished_run: Path) -> onnx.ModelProto:
    """The graph of the tiny ViT, without metadata. Tests must not change it; `quick` gives them a copy."""
    target = shared / "graphs" / "tiny.onnx"
    target.parent.mkdir(exist_ok=True)
    with FileLock(target.with_suffix(".lock")):
        if not target.is_file():
            model = vitspeech.load(finished_run)
            (graph,) = folders.spec_of(model).graphs.values()
            made = folders.to_onnx(graph)
            onnx.save(made, draft := target.with_suffix(".draft"))
            draft.rename(target)
    return onnx.load(target)


@pytest.fixture
def quick(graph: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    """Exports of the tiny ViT take the graph that is there: a copy, which the test may change."""
    copy = onnx.ModelProto()
    copy.CopyFrom(graph)
    monkeypatch.setattr(folders, "to_onnx", lambda *args: copy)
    return copy


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment with numpy, onnxruntime, soundfile and Pillow, but without torch."""
    return make_bare(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def runtime() -> dict[str, bytes]:
    """The files of onnxruntime-web; skipped only where nothing can give them, not if they are altered."""
    try:
        return web_runtime()
    except UnavailableError as error:
        pytest.skip(str(error))
