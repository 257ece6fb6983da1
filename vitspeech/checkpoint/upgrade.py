"""Reading released models that were written by an earlier version of the package.

Format 1 is that of vitspeech 0.1. `FORMAT` is the format that `save` writes; a card without `format` is of format 1.

Format 2 names the task of a network (`task: vitspeech.Classification`), nests the settings of encoder and decoder
(`encoder: {depth: 6, …}`), and spells `normalizer` and `std`.
"""

from typing import Any

from torch import Tensor

FORMAT = 2
RENAMED_CLASSES = {"vitspeech.SpeechLabeller": "vitspeech.SpeechLabeler"}
RENAMED_ARGUMENTS = {"normaliser": "normalizer"}
RENAMED_TENSORS = {"log_mel.deviation": "log_mel.std"}

TASKS = {
    "vitspeech.SpeechLabeler": "vitspeech.Labeling",
    "vitspeech.SpeechRecognizer": "vitspeech.Recognition",
    "vitspeech.SpeechTranscriber": "vitspeech.Transcription",
}
# The flat arguments that format 2 nests, and the defaults of format 1 that differ from `EncoderConfig`'s.
ENCODER = ("depth", "heads", "left", "right", "mlp_ratio", "dropout", "drop_path", "score", "normalizer")
DECODER = ("heads", "mlp_ratio", "dropout", "score", "normalizer")
ENCODER_DEFAULTS = {"vitspeech.ViT": {"depth": 9, "heads": 3}}
ENCODER_OWNERS = (
    "vitspeech.ViT",
    "vitspeech.SpeechClassifier",
    "vitspeech.SpeechLabeler",
    "vitspeech.SpeechRecognizer",
    "vitspeech.SpeechTranscriber",
)


def upgraded_config(config: dict[str, Any]) -> dict[str, Any]:
    """The contents of a format 1 `config.yaml` in format 2."""
    preprocessing = dict(config["preprocessing"])
    if "deviation" in preprocessing:
        preprocessing["std"] = preprocessing.pop("deviation")
    network = upgraded_network(config["network"])
    task = TASKS.get(network["class_path"], "vitspeech.Classification")
    return {"task": task, **config, "network": network, "preprocessing": preprocessing}


def upgraded_network(network: dict[str, Any]) -> dict[str, Any]:
    """The `class_path` and `init_args` of a network in format 2, nested ones included."""
    path = RENAMED_CLASSES.get(network["class_path"], network["class_path"])
    arguments = {}
    for name, value in (network.get("init_args") or {}).items():
        nested = isinstance(value, dict) and "class_path" in value
        arguments[RENAMED_ARGUMENTS.get(name, name)] = upgraded_network(value) if nested else value
    if path in ENCODER_OWNERS:
        arguments = nested_arguments(path, arguments)
    return {**network, "class_path": path, "init_args": arguments}


def nested_arguments(path: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Move a network's flat arguments into `encoder`, and into `decoder` for a transcriber."""
    encoder = {name: arguments[name] for name in ENCODER if name in arguments}
    nested = {"encoder": ENCODER_DEFAULTS.get(path, {}) | encoder}
    if path == "vitspeech.SpeechTranscriber":
        shared = {name: encoder[name] for name in DECODER if name in encoder}
        nested["decoder"] = {"depth": arguments.get("decoder_depth", 2)} | shared
    return {name: arguments[name] for name in arguments if name not in (*ENCODER, "decoder_depth")} | nested


def upgraded_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A format 1 state dictionary with the tensor names of format 2."""
    renamed = {}
    for name, tensor in weights.items():
        for old, new in RENAMED_TENSORS.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        renamed[name] = tensor
    return renamed
