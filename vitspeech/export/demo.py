"""A page that runs exported models in a browser: a folder of static files for any web host.

FOLDER/index.html …               the page
FOLDER/ort/                       onnxruntime-web
FOLDER/models/NAME/               model.onnx and model.json of each model
FOLDER/examples/                  a recording and pictures
FOLDER/models.json                which models and examples there are
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vitspeech.attention import Encoder
from vitspeech.checkpoint.folder import Model
from vitspeech.data.files import sha256, write_json
from vitspeech.errors import InputError
from vitspeech.export.examples import write_test_pictures
from vitspeech.export.folder import FORMAT, GRAPH, METADATA, check_new, export, is_streaming, new_draft
from vitspeech.export.images import has_attention
from vitspeech.export.runner.model_folder import check_same
from vitspeech.export.session import session
from vitspeech.models.encoder_decoder import EncoderDecoder
from vitspeech.samples import FOLDER as SAMPLES

PAGE = Path(__file__).parent / "page"
EXAMPLES = {"speech": ["left-right-go.wav"], "images": ["cat.jpg", "horse.jpg"]}
KINDS = ("images", "clips", "stream")


def write_demo(
    sources: Sequence[str | Path],
    folder: str | Path,
    runtime: Mapping[str, bytes],
    load: Callable[[Path], Model],
    data: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Write the page of some models, or nothing if one of them can't be shown.

    Args:
        sources: Folders of released models, finished runs or exported models.
        folder: A new folder.
        runtime: From `web_runtime`.
        load: Loads a model that is not exported yet, as `vitspeech.load`. It is exported with its attention.
        data: The folder of CIFAR-10, for test pictures as examples; see `write_test_pictures`.

    Returns:
        The models: `folder`, `name` and `kind` of each.

    Raises:
        FileExistsError: If the folder exists.
        FileNotFoundError: If `data` lacks the data set.
        InputError: If a model can't be exported or shown, or an exported folder has an altered file.
    """
    folder = Path(folder)
    check_new(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = new_draft(folder)
    try:
        models = write_models(sources, draft, load)
        shutil.copytree(PAGE, draft, dirs_exist_ok=True)
        for name, content in runtime.items():
            (draft / "ort").mkdir(exist_ok=True)
            (draft / "ort" / name).write_bytes(content)
        (draft / "examples").mkdir()
        for name in (name for names in EXAMPLES.values() for name in names):
            shutil.copyfile(SAMPLES / name, draft / "examples" / name)
        examples = {sense: [f"examples/{name}" for name in names] for sense, names in EXAMPLES.items()}
        labels = [json.loads((draft / model["folder"] / METADATA).read_text("utf-8"))["labels"] for model in models]
        tested = write_test_pictures(draft / "examples", labels, data)
        examples["images"] += [f"examples/{name}" for name in tested]
        write_json({"models": models, "examples": examples}, draft / "models.json")
        draft.rename(folder)
    except BaseException:  # Ctrl-C, too
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return models


def write_models(sources: Sequence[str | Path], folder: Path, load: Callable[[Path], Model]) -> list[dict[str, Any]]:
    """Write `models/NAME/` of each source; see `write_demo`."""
    models: list[dict[str, Any]] = []
    for source in map(Path, sources):
        name = free_name(source, [model["name"] for model in models])
        target = folder / "models" / name
        metadata = copy_exported(source, target) if is_exported(source) else export_loaded(source, target, load)
        models.append({"folder": f"models/{name}", "name": name, "kind": metadata["kind"]})
    return models


def free_name(source: Path, taken: Sequence[str]) -> str:
    """A unique name for a model: its folder's, PARENT-NAME if that is a number; with a number if it is taken."""
    source = Path(os.path.abspath(source))  # the name of a link, not of what it leads to
    name = f"{source.parent.name}-{source.name}" if source.name.isdigit() else source.name
    name = re.sub(r"[^\w.-]+", "-", name)  # it is a part of addresses
    number = next(
        count for count in range(1, len(taken) + 2) if (name if count == 1 else f"{name}-{count}") not in taken
    )
    return name if number == 1 else f"{name}-{number}"


def is_exported(source: Path) -> bool:
    """Whether a folder is an exported model."""
    return (source / METADATA).is_file()


def export_loaded(source: Path, target: Path, load: Callable[[Path], Model]) -> dict[str, Any]:
    """Export a released model or a finished run, with its attention weights if it has any."""
    model = load(source)
    if isinstance(model.network, EncoderDecoder):
        refuse(source, type(model.network).__name__)
    if "image" in model.preprocessing:
        return export(model, target, attention=has_attention(model))
    is_attention = isinstance(getattr(model.network, "encoder", None), Encoder)
    return export(model, target, attention=is_attention and is_streaming(model))


def copy_exported(source: Path, target: Path) -> dict[str, Any]:
    """Copy the graph and the metadata of an exported model.

    Raises:
        InputError: If its format is another one, its graph was altered, or the page can't show it.
    """
    try:
        metadata = json.loads((source / METADATA).read_text(encoding="utf-8"))
        form, kind, expected = metadata["format"], metadata["kind"], metadata["files"][GRAPH]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{source / METADATA}: not that of an exported model ({error}); export it anew") from None
    if form != FORMAT:
        raise InputError(f"{source}: has the format {form}, not {FORMAT}; export it anew")
    if kind not in KINDS:
        refuse(source, f"a model of the kind {kind!r}")
    if sha256(source / GRAPH) != expected:
        raise InputError(f"{source}: {GRAPH} does not match {METADATA} (another SHA-256); export it anew")
    try:
        check_same(session((source / GRAPH).read_bytes()), source, metadata)
    except ValueError as error:
        raise InputError(str(error)) from None
    target.mkdir(parents=True)
    for name in (GRAPH, METADATA):
        shutil.copyfile(source / name, target / name)
    return metadata


def refuse(source: Path, what: str) -> None:
    """Refuse a model that writes its transcript unit by unit."""
    raise InputError(f"{source}: the page can't show {what}: it shows images, clips and streams, not encoder-decoders")
