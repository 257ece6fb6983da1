"""Exporting a model: a folder that runs on numpy and ONNX Runtime alone.

FOLDER/model.onnx     the graph, which has the metadata, too
FOLDER/decoder.onnx   a step of the decoder, of an encoder-decoder
FOLDER/model.json     labels, times, preprocessing, thresholds, parity with the network, sha256 of the other files
FOLDER/run.py         runs the model: image or recording -> labels, words with their times, or a transcript
FOLDER/*.py           what run.py imports; `runner` says what each kind needs
FOLDER/LICENSE.*      the license of the package whose weights the graph has, of a model with `SpeechEmbedding`
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitspeech.attention import Encoder, MeanPooling
from vitspeech.checkpoint.model import CARD, WEIGHTS, Model
from vitspeech.errors import InputError
from vitspeech.export.encoder_decoder import encoder_decoder_spec
from vitspeech.export.graphs import ExportSpec, session, to_onnx
from vitspeech.export.images import image_spec
from vitspeech.export.int8 import to_int8
from vitspeech.export.runner import runner
from vitspeech.export.runner.model_schema import SCHEMA, mistakes
from vitspeech.export.speech import clip_spec, stream_spec
from vitspeech.export.stream_step import has_fixed_state
from vitspeech.files import new_folder, sha256, sync, write_json
from vitspeech.frontends.embedding import PACKAGE, SpeechEmbedding, license_text
from vitspeech.models.seq2seq import EncoderDecoder

FORMAT = 1
GRAPH, METADATA = "model.onnx", "model.json"
NOTICE = f"LICENSE.{PACKAGE}"


def export(
    model: Model,
    folder: str | Path,
    *,
    offline: bool = False,
    stream: bool = False,
    attention: bool | None = False,
    int8: bool = False,
    data: str | None = None,
) -> dict[str, Any]:
    """Write a model as ONNX graphs, if ONNX Runtime computes with them what the network computes.

    Args:
        model: From `vitspeech.load`.
        folder: A new folder.
        offline: Export a streamable speech classifier as one for whole clips.
        stream: Refuse a model that can't be streamed; not together with `offline`.
        attention: Add the attention weights of every block as further outputs; `None` does so if that is possible.
        int8: Quantize the weights, if that costs at most half a point of accuracy on the test set of the card.
        data: The folder of that data set; `None` is the default of the data set's class.

    Returns:
        What `model.json` holds.

    Raises:
        FileExistsError: If the folder exists.
        InputError: If the model can't be exported, or a graph computes something else. Nothing is written then.
        MissingExtraError: If the extra `export` is not installed.
    """
    with new_folder(Path(folder)) as draft:
        spec, graphs, parity = convert(spec_of(model, offline=offline, stream=stream, attention=attention))
        metadata = {"format": FORMAT, "kind": spec.name, "name": model.card.get("name"), "labels": model.labels}
        metadata |= spec.metadata | {"source": None, "parity": parity}
        if model.folder is not None:
            metadata["source"] = {"sha256": sha256(model.folder / WEIGHTS), "card_sha256": sha256(model.folder / CARD)}
        if int8:
            parity["of"] = "fp32, before quantization"
            graphs[GRAPH], metadata["int8"] = to_int8(model, spec, graphs[GRAPH], data)
        for graph in graphs.values():
            graph.metadata_props.add(key="vitspeech", value=json.dumps(metadata))
        contents = {file: graph.SerializeToString() for file, graph in graphs.items()} | runner(spec.name)
        metadata["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        for mistake in mistakes(json.loads(json.dumps(metadata)), SCHEMA, "model.json"):
            raise InputError(f"can't be exported, because run.py would refuse it: {mistake}")
        write_json(metadata, draft / METADATA)
        for name, content in contents.items():
            (draft / name).write_bytes(content)
        if any(isinstance(module, SpeechEmbedding) for module in model.network.modules()):
            (draft / NOTICE).write_text(license_text(), "utf-8")
        for path in draft.iterdir():
            sync(path)
    return metadata


def convert(spec: ExportSpec) -> tuple[ExportSpec, dict[str, "onnx.ModelProto"], dict[str, float]]:  # noqa: F821
    """The spec that was exported (`spec.fallback` if `spec` fails), its graphs, and their parity with the network."""
    try:
        graphs = {file: to_onnx(graph) for file, graph in spec.graphs.items()}
        return spec, graphs, spec.compare({file: session(graph.SerializeToString()) for file, graph in graphs.items()})
    except InputError as error:
        if spec.fallback is None:
            raise
        because = {"fixed_because": " ".join(str(error).split())[:1000]}
        return convert(replace(spec.fallback, metadata=spec.fallback.metadata | because))


def spec_of(model: Model, *, offline: bool = False, stream: bool = False, attention: bool | None = False) -> ExportSpec:
    """How a model is exported; an `InputError` if it can't be."""
    if attention is None:
        with suppress(InputError):
            return spec_of(model, offline=offline, stream=stream, attention=True)
    name, of_clips = type(model.network).__name__, "seconds" in model.preprocessing
    if offline and not of_clips:
        raise InputError(f"offline (--offline) is for classifiers of clips of speech, and {name} is none; leave it out")
    if "image" in model.preprocessing and not stream:
        return image_spec(model, attention)
    of_units, of_speech = isinstance(model.network, EncoderDecoder), "sample_rate_hz" in model.preprocessing
    streams = stream or (of_speech and not of_units and not offline and is_streaming(model))
    if not (of_units or of_clips or streams):
        raise InputError(f"{name} can't be exported: only classifiers of images and clips, models that stream, and "
                         "encoder-decoders can")  # fmt: skip
    if attention and not (streams and isinstance(getattr(model.network, "encoder", None), Encoder)):
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
