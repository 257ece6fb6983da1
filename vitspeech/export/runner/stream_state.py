"""Saving a stream in the middle of a recording, to go on later or elsewhere. A state is of one model."""

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy

from vitspeech.data.audio.levels import LOUDEST
from vitspeech.export.runner.model_folder import check_file

MOST_ARRAYS = 20
LONGEST_STEPS = 2**40


def check_target(path: str | Path) -> None:
    """Refuse what can't be replaced by a state later: a device would be replaced by a file, by the superuser."""
    path, folder = Path(path), Path(path).absolute().parent
    if path.exists() and not path.is_file():
        raise ValueError(f"--save-state {path}: not a regular file; name another one")
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ValueError(f"--save-state {path}: {folder} is not a folder that can be written to")


def save_state(model: Any, path: str | Path) -> None:
    """Write all that the rest of the recording depends on, with the checksum of the model (`run.Model`)."""
    check_target(path)
    draft = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.draft")
    try:
        with open(draft, "wb") as file:
            numpy.savez(file, **arrays_of(model))
        draft.replace(path)  # the state before stays if this is interrupted
    finally:
        draft.unlink(missing_ok=True)


def load_state(model: Any, path: str | Path) -> None:
    """Go on with the recording whose state `save_state` wrote; the file may come from somebody else."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such state; write it with --save-state")
    check_file(path)
    model.restart()
    own = arrays_of(model)
    try:
        saved = read_arrays(path)
        its_model = str(saved["model"])
    except Exception:  # zipfile and numpy raise errors of many classes for other files
        raise ValueError(f"{path}: not the state of a model") from None
    if its_model != str(own["model"]):
        raise ValueError(f"{path}: the state of another model")
    try:
        if saved.keys() != own.keys() or not fits(model, saved):
            raise ValueError
        model.decoder.restore({name.removeprefix("decoder_"): value for name, value in saved.items()})
        tokens, rows = tokens_after(model, int(saved["steps"])), model.decoder.count
        if not (tokens <= rows and rows % tokens == 0 if tokens else rows == 0):
            raise ValueError
    except (ValueError, TypeError, KeyError, OverflowError):
        model.restart()
        raise ValueError(f"{path}: a damaged state") from None
    model.steps, model.state, model.pending = int(saved["steps"]), saved["state"], saved["pending"]


def arrays_of(model: Any) -> dict[str, numpy.ndarray]:
    """What a state holds; `model` is the sha256 of the graph."""
    mine = {name: numpy.asarray(getattr(model, name)) for name in ("steps", "pending", "state")}
    decoder = {f"decoder_{name}": value for name, value in model.decoder.state().items()}
    return {"model": numpy.asarray(model.about["files"]["model.onnx"]), **mine, **decoder}


def read_arrays(path: str | Path) -> dict[str, numpy.ndarray]:
    """The few arrays of a file, which together are not larger than it is: `numpy.savez` does not compress."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if len(members) > MOST_ARRAYS or sum(member.file_size for member in members) > os.path.getsize(path):
        raise ValueError
    with numpy.load(path, allow_pickle=False) as file:
        return dict(file)


def fits(model: Any, saved: dict[str, numpy.ndarray]) -> bool:
    """Whether what a state has of the graph and of its input are numbers of this model's shapes, within their range."""
    steps, pending, state = (saved[name] for name in ("steps", "pending", "state"))
    is_count = steps.dtype.kind == "i" and steps.shape == () and 0 <= steps <= LONGEST_STEPS
    is_state = (state.shape, state.dtype) == (model.state.shape, model.state.dtype) and numpy.isfinite(state).all()
    is_audio = pending.dtype == numpy.float32 and pending.ndim == 1 and len(pending) < model.hop_samples
    return bool(is_count and is_state and is_audio and abs(pending).max(initial=0) <= LOUDEST)


def tokens_after(model: Any, steps: int) -> int:
    """The number of tokens whose logits a stream has returned after so many steps."""
    return max(steps - model.about["first_step"] - model.about["steps_ahead"], 0)
