"""Exporting a model: a folder that runs on numpy and ONNX Runtime alone.

FOLDER/model.onnx     the graph, which has the metadata, too
FOLDER/decoder.onnx   a step of the decoder, of an encoder-decoder
FOLDER/model.json     labels, times, preprocessing, thresholds, what the gate found, sha256 of the other files
FOLDER/run.py         runs the model: picture or recording -> labels, words with their times, or a transcript
FOLDER/*.py           what run.py imports; `runner` says what each kind needs
"""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitspeech.attention import Encoder, MeanPooling
from vitspeech.checkpoint.model import CARD, WEIGHTS, Model
from vitspeech.errors import InputError
from vitspeech.export.clips import clip_kind
from vitspeech.export.encoder_decoder import encoder_decoder_kind
from vitspeech.export.graph import to_onnx
from vitspeech.export.images import image_kind
from vitspeech.export.int8 import to_int8
from vitspeech.export.kind import Kind
from vitspeech.export.runner import runner
from vitspeech.export.session import session
from vitspeech.export.stream import stream_kind
from vitspeech.export.stream_step import check_attention, has_fixed_state
from vitspeech.files import sha256, sync, write_json
from vitspeech.inference.stream import AudioStream
from vitspeech.models.seq2seq import EncoderDecoder

FORMAT = 1
GRAPH, METADATA = "model.onnx", "model.json"


def export(
    model: Model,
    folder: str | Path,
    *,
    offline: bool = False,
    stream: bool = False,
    attention: bool = False,
    int8: bool = False,
    data: str | None = None,
) -> dict[str, Any]:
    """Write a model as ONNX graphs, if ONNX Runtime computes with them what the network computes.

    Args:
        model: From `vitspeech.load`.
        folder: A new folder.
        offline: Export a streamable speech classifier as one for whole clips.
        stream: Refuse a model that can't be streamed.
        attention: Add the attention weights of every block as further outputs.
        int8: Quantize the weights, if that costs at most half a point of accuracy on the test set of the card.
        data: The folder of that data set; `None` is the default of the data set's class.

    Returns:
        What `model.json` holds.

    Raises:
        FileExistsError: If the folder exists.
        InputError: If the model can't be exported, or a graph computes something else. Nothing is written then.
        MissingExtraError: If the extra `export` is not installed.
    """
    folder = Path(folder)
    check_new(folder)
    if stream:
        check_streaming(model, offline)
    kind, graphs, gate = converted(kind_of(model, offline=offline, attention=attention))
    metadata = {"format": FORMAT, "kind": kind.name, "name": model.card.get("name"), "labels": model.labels}
    metadata |= kind.metadata | {"source": source_of(model), "gate": gate}
    if int8:
        metadata["gate"]["of"] = "fp32, before quantization"
        graphs[GRAPH], metadata["int8"] = to_int8(model, kind, graphs[GRAPH], data)
    contents = {file: with_metadata(graph, metadata) for file, graph in graphs.items()}
    return write(folder, metadata, contents | runner(metadata))


def converted(kind: Kind) -> tuple[Kind, dict[str, "onnx.ModelProto"], dict[str, float]]:  # noqa: F821
    """The kind that was exported (`kind.otherwise` if `kind` fails), its graphs, and what the gate found.

    Raises:
        InputError: If there is no graph, or it computes something else.
    """
    try:
        graphs = {
            file: to_onnx(graph.module, graph.inputs, graph.outputs, graph.dynamic)
            for file, graph in kind.graphs.items()
        }
        return kind, graphs, kind.check({file: session(graph.SerializeToString()) for file, graph in graphs.items()})
    except InputError as error:
        if kind.otherwise is None:
            raise
        reason = {"fixed_because": str(error)}
        return converted(replace(kind.otherwise, metadata=kind.otherwise.metadata | reason))


def kind_of(model: Model, *, offline: bool, attention: bool) -> Kind:
    """How a model is exported.

    Raises:
        InputError: If it can't be.
    """
    name = type(model.network).__name__
    if offline and "seconds" not in model.preprocessing:
        raise InputError(f"offline (--offline) is for classifiers of clips of speech, and {name} is none; leave it out")
    if "image" in model.preprocessing:
        return image_kind(model, attention)
    if isinstance(model.network, EncoderDecoder):
        refuse_attention(attention, name)
        return encoder_decoder_kind(model)
    if "sample_rate_hz" not in model.preprocessing:
        raise InputError(f"{name} can't be exported: only models of images and speech, and encoder-decoders can")
    if is_streaming(model) and not offline:
        return stream_kind(model, attention)
    if "seconds" not in model.preprocessing:
        raise InputError(f"{name} can't be exported: it neither streams nor classifies clips")
    refuse_attention(attention, f"{name} for whole clips")
    return clip_kind(model)


def is_streaming(model: Model) -> bool:
    """Whether a model is exported as a stream.

    Its look-ahead must be limited and its pooling a mean, so that the rows of a stream are all that it computes. The
    state of a classifier must have a fixed size, too. Labelers and recognizers are streams even if it has not: they
    have no other form, and the export refuses them.
    """
    encoder, pooling = getattr(model.network, "encoder", None), getattr(model.network, "pooling", None)
    if getattr(encoder, "receptive_field", (None, None))[1] is None or not isinstance(pooling, MeanPooling | None):
        return False
    return "seconds" not in model.preprocessing or not isinstance(encoder, Encoder) or has_fixed_state(encoder)


def check_streaming(model: Model, offline: bool) -> None:
    """Refuse what is not exported as a stream.

    Raises:
        InputError: If the model can't be streamed, or `offline` is set; the message states the reason.
    """
    if offline:
        raise InputError("a model is exported either as a stream or, with offline, for whole clips")
    AudioStream(model.network)  # which says why not
    if not is_streaming(model):
        name, pooling = type(model.network).__name__, type(model.network.pooling).__name__
        if isinstance(model.network.encoder, Encoder):
            check_attention(model.network.encoder, name)
        raise InputError(f"{name} can't be exported as a stream: {pooling} needs the whole clip, only the logits of "
                         "MeanPooling are the mean of a stream's rows")  # fmt: skip


def refuse_attention(attention: bool, what: str) -> None:
    """Refuse attention weights where a graph has none.

    Raises:
        InputError: If they are wanted.
    """
    if attention:
        raise InputError(f"{what} is exported without attention weights: they are for images and streams")


def source_of(model: Model) -> dict[str, str] | None:
    """Checksums of the weights and the card that a model was loaded from."""
    if model.folder is None:
        return None
    return {"sha256": sha256(model.folder / WEIGHTS), "card_sha256": sha256(model.folder / CARD)}


def check_new(folder: Path) -> None:
    """Refuse a folder that exists.

    Raises:
        FileExistsError: If it does, also as a link that leads nowhere.
    """
    if folder.exists() or folder.is_symlink():
        raise FileExistsError(f"{folder}: exists; name a new folder")


def with_metadata(graph: "onnx.ModelProto", metadata: dict[str, Any]) -> bytes:  # noqa: F821
    """A graph with metadata under the key `vitspeech`, as the content of a file."""
    entry = graph.metadata_props.add()
    entry.key, entry.value = "vitspeech", json.dumps(metadata)
    return graph.SerializeToString()


def new_draft(folder: Path) -> Path:
    """A new hidden folder beside a folder that is to be written, which no other process uses."""
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name[:40]}.", suffix=".draft", dir=folder.parent))
    draft.chmod(0o755)  # it is made readable by its owner alone
    return draft


def write(folder: Path, metadata: dict[str, Any], contents: dict[str, bytes]) -> dict[str, Any]:
    """Write all files, or none if it fails.

    Args:
        folder: A new folder.
        metadata: For `model.json`; the checksums of the other files are added under `files`.
        contents: Of the other files, by their name.

    Returns:
        The metadata with the checksums.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = new_draft(folder)
    try:
        for name, content in contents.items():
            (draft / name).write_bytes(content)
        metadata = metadata | {"files": {name: sha256(draft / name) for name in contents}}
        write_json(metadata, draft / METADATA)
        for path in draft.iterdir():
            sync(path)
        draft.rename(folder)
    except BaseException:  # Ctrl-C, too
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return metadata
