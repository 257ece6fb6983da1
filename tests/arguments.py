"""Flat network arguments for tests that vary those of the encoder, the decoder and the model at once."""

from dataclasses import fields
from typing import Any

from vitspeech.attention import DecoderConfig, EncoderConfig

ENCODER, DECODER = ({field.name for field in fields(config)} for config in (EncoderConfig, DecoderConfig))


def nested(**arguments: Any) -> dict[str, Any]:
    """Move the encoder's arguments into `encoder`: `depth=2, positions=None` -> `encoder={"depth": 2}, positions=None`.

    With `decoder_depth` there is a decoder of that depth, otherwise with the encoder's arguments as far as it has them.
    """
    encoder = {name: value for name, value in arguments.items() if name in ENCODER}
    model = {name: value for name, value in arguments.items() if name not in ENCODER}
    if "decoder_depth" in model:
        shared = {name: value for name, value in encoder.items() if name in DECODER and name != "left"}
        model["decoder"] = shared | {"depth": model.pop("decoder_depth")}
    return model | {"encoder": encoder}
