"""Exporting a model: a folder that runs on numpy and ONNX Runtime alone.

FOLDER/model.onnx     the graph, which has the metadata, too
FOLDER/decoder.onnx   a step of the decoder, of an encoder-decoder
FOLDER/model.json     labels, times, preprocessing, thresholds, parity with the network, sha256 of the other files
FOLDER/run.py         runs the model: picture or recording -> labels, words with their times, or a transcript
FOLDER/*.py           what run.py imports; `runner` says what each kind needs
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitspeech.attention import Encoder, MeanPooling
from vitspeech.checkpoint.model import CARD, WEIGHTS, Model
from vitspeech.errors import InputError
from vitspeech.export.clips import clip_spec
from vitspeech.export.encoder_decoder import encoder_decoder_spec
from vitspeech.export.graphs import ExportSpec, session, to_onnx
from vitspeech.export.images import image_spec
from vitspeech.export.int8 import to_int8
from vitspeech.export.runner import runner
from vitspeech.export.stream.block_steps import check_attention, has_fixed_state
from vitspeech.export.stream.spec import stream_spec
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
        stream: Refuse a model that can't be streamed; not together with `offline`.
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
        check_streaming(model)
    spec, graphs, parity = convert(spec_of(model, offline=offline, attention=attention))
    metadata = {"format": FORMAT, "kind": spec.name, "name": model.card.get("name"), "labels": model.labels}
    metadata |= spec.metadata | {"source": source_of(model), "parity": parity}
    if int8:
        parity["of"] = "fp32, before quantization"
        graphs[GRAPH], metadata["int8"] = to_int8(model, spec, graphs[GRAPH], data)
    contents = {file: with_metadata(graph, metadata) for file, graph in graphs.items()}
    return write(folder, metadata, contents | runner(metadata))


def convert(spec: ExportSpec) -> tuple[ExportSpec, dict[str, "onnx.ModelProto"], dict[str, float]]:  # noqa: F821
    """The spec that was exported (`spec.fallback` if `spec` fails), its graphs, and their parity with the network."""
    try:
        graphs = {file: to_onnx(graph) for file, graph in spec.graphs.items()}
        return spec, graphs, spec.compare({file: session(graph.SerializeToString()) for file, graph in graphs.items()})
    except InputError as error:
        if spec.fallback is None:
            raise
        return convert(replace(spec.fallback, metadata=spec.fallback.metadata | {"fixed_because": str(error)}))


def spec_of(model: Model, *, offline: bool, attention: bool) -> ExportSpec:
    """How a model is exported; an `InputError` if it can't be."""
    name, of_clips = type(model.network).__name__, "seconds" in model.preprocessing
    if offline and not of_clips:
        raise InputError(f"offline (--offline) is for classifiers of clips of speech, and {name} is none; leave it out")
    if "image" in model.preprocessing:
        return image_spec(model, attention)
    of_units = isinstance(model.network, EncoderDecoder)
    streams = "sample_rate_hz" in model.preprocessing and not of_units and not offline and is_streaming(model)
    if not (of_units or of_clips or streams):
        raise InputError(f"{name} can't be exported: only classifiers of images and clips, models that stream, and "
                         "encoder-decoders can")  # fmt: skip
    if attention and not (streams and isinstance(model.network.encoder, Encoder)):
        raise InputError(f"{name}{' for whole clips' * (not streams)} is exported without attention weights: they are "
                         "for images, and for streams whose encoder is attention")  # fmt: skip
    if streams:
        return stream_spec(model, attention)
    return encoder_decoder_spec(model) if of_units else clip_spec(model)


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


def check_streaming(model: Model) -> None:
    """Refuse what is not exported as a stream, with the reason."""
    AudioStream(model.network)  # which says why not
    if not is_streaming(model):
        name, pooling = type(model.network).__name__, type(model.network.pooling).__name__
        if isinstance(model.network.encoder, Encoder):
            check_attention(model.network.encoder, name)
        raise InputError(f"{name} can't be exported as a stream: {pooling} needs the whole clip, only the logits of "
                         "MeanPooling are the mean of a stream's rows")  # fmt: skip


def source_of(model: Model) -> dict[str, str] | None:
    """Checksums of the weights and the card that a model was loaded from."""
    if model.folder is None:
        return None
    return {"sha256": sha256(model.folder / WEIGHTS), "card_sha256": sha256(model.folder / CARD)}


def check_new(folder: Path) -> None:
    """Refuse a folder that exists, also as a link that leads nowhere."""
    if folder.exists() or folder.is_symlink():
        raise FileExistsError(f"{folder}: exists; name a new folder")


def with_metadata(graph: "onnx.ModelProto", metadata: dict[str, Any]) -> bytes:  # noqa: F821
    """A graph with metadata under the key `vitspeech`, as the content of a file."""
    entry = graph.metadata_props.add()
    entry.key, entry.value = "vitspeech", json.dumps(metadata)
    return graph.SerializeToString()


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder beside a new one, which it becomes once it is written; nothing is left if that fails."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name[:40]}.", suffix=".draft", dir=folder.parent))
    draft.chmod(0o755)  # it is made readable by its owner alone
    try:
        yield draft
        draft.rename(folder)
    except BaseException:  # Ctrl-C, too
        shutil.rmtree(draft, ignore_errors=True)
        raise


def write(folder: Path, metadata: dict[str, Any], contents: dict[str, bytes]) -> dict[str, Any]:
    """Write the metadata, with checksums under `files`, and the contents of the other files; return the metadata."""
    with new_folder(folder) as draft:
        for name, content in contents.items():
            (draft / name).write_bytes(content)
        metadata = metadata | {"files": {name: sha256(draft / name) for name in contents}}
        write_json(metadata, draft / METADATA)
        for path in draft.iterdir():
            sync(path)
    return metadata
