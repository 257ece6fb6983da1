"""Saving a stream in the middle of a recording, to go on later or elsewhere. A state is of one model."""

import os
from pathlib import Path
from typing import Any

import numpy


def save_state(model: Any, path: str | Path) -> None:
    """Write all that the rest of the recording depends on, with the checksum of the model (`run.Model`)."""
    mine = {name: getattr(model, name) for name in ("steps", "pending", "state")}
    decoder = {f"decoder_{name}": value for name, value in model.decoder.state().items()}
    draft = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.draft")
    try:
        with open(draft, "wb") as file:
            numpy.savez(file, model=checksum(model), **mine, **decoder)
        draft.replace(path)  # the state before stays if this is interrupted
    finally:
        draft.unlink(missing_ok=True)


def load_state(model: Any, path: str | Path) -> None:
    """Go on with the recording whose state `save_state` wrote."""
    model.restart()
    problem = "not the state of a model"
    try:
        with numpy.load(path, allow_pickle=False) as file:
            saved = dict(file)
        its_model, steps = str(saved.pop("model")), int(saved.pop("steps"))
        state, pending = saved.pop("state"), saved.pop("pending")
        problem = f"the state of another model, whose sha256 begins with {its_model[:12]}"
        if its_model == checksum(model):
            problem = "a damaged state"
            form = state.shape, state.dtype, pending.ndim, pending.dtype
            if form == (model.state.shape, model.state.dtype, 1, model.state.dtype):
                model.decoder.restore({name.removeprefix("decoder_"): value for name, value in saved.items()})
                problem = ""
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such state; write it with --save-state") from None
    except Exception:  # numpy raises errors of many classes for other files
        model.decoder.restart()
    if problem:
        raise ValueError(f"{path}: {problem}")
    model.steps, model.state, model.pending = steps, state, pending


def checksum(model: Any) -> str:
    """The sha256 of the model's graph."""
    return model.about["files"]["model.onnx"]
