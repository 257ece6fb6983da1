"""Attention, recurrence and windows replace each other in configs: `encoder` is settings or a class."""

import pytest
import yaml

from vitspeech import InputError, RecurrentEncoder, WindowMLP
from vitspeech.attention import Encoder
from vitspeech.training.train import TrainingCLI

TOKENS = {"class_path": "vitspeech.SpeechFrontend", "init_args": {"width": 16, "mels": 20, "stride": 4}}
LSTM = {"class_path": "vitspeech.RecurrentEncoder", "init_args": {"width": 16, "depth": 1}}
WINDOW = {"class_path": "vitspeech.WindowMLP", "init_args": {"width": 16, "left": 1, "right": 1, "hidden": 8}}


def config(tmp_path, number, **network):
    """A config whose network has these arguments."""
    content = {
        "data": {"class_path": "vitspeech.SpeechCommands", "init_args": {"words": ["yes", "no"]}},
        "model": {
            "class_path": "vitspeech.Classification",
            "init_args": {"network": {"class_path": "vitspeech.SpeechClassifier", "init_args": network}},
        },
    }
    path = tmp_path / f"{number}.yaml"
    path.write_text(yaml.safe_dump(content))
    return f"--config={path}"


def built(tmp_path, *encoders, overrides=()):
    """The command line of configs that set the encoder one after the other."""
    configs = [config(tmp_path, number, tokens=TOKENS, encoder=encoder) for number, encoder in enumerate(encoders)]
    return TrainingCLI([*configs, *overrides, "--model.network.classes=4"])


@pytest.mark.parametrize(
    "encoders, kind, depth",
    [
        ([{"depth": 3, "heads": 2}, {"left": 8}], Encoder, 3),
        ([{"depth": 3, "heads": 2}, LSTM], RecurrentEncoder, 1),
        ([LSTM, WINDOW | {"init_args": WINDOW["init_args"] | {"depth": 2}}], WindowMLP, 2),
        ([LSTM, {"class_path": "vitspeech.EncoderConfig", "init_args": {"depth": 2, "heads": 2}}], Encoder, 2),
    ],
)
def test_a_later_config_changes_or_replaces_the_encoder(tmp_path, encoders, kind, depth):
    encoder = built(tmp_path, *encoders).model.network.encoder
    assert type(encoder) is kind and len(encoder.blocks) == depth


def test_the_command_line_changes_a_field_of_either(tmp_path):
    cli = built(tmp_path, {"depth": 3, "heads": 2}, overrides=["--model.network.encoder.depth=1"])
    assert len(cli.model.network.encoder.blocks) == 1
    cli = built(tmp_path, LSTM, overrides=["--model.network.encoder.cell", "gru"])
    assert cli.config.model.init_args.network.init_args.encoder.init_args.cell == "gru"


def test_the_resolved_config_has_plain_settings_and_the_class_of_a_module(tmp_path):
    def encoder(cli):
        return yaml.safe_load(cli.resolved_config())["model"]["init_args"]["network"]["init_args"]["encoder"]

    settings = encoder(built(tmp_path, {"depth": 3, "heads": 2}))
    assert settings["depth"] == 3 and settings["norm"] == "pre" and "class_path" not in settings
    assert encoder(built(tmp_path, LSTM))["class_path"] == "vitspeech.RecurrentEncoder"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"hidden": 0}, "^hidden=0 is not a number from 1$"),
        ({"width": 14}, "^encoder=RecurrentEncoder has width=14, but the tokens have width=16$"),
    ],
)
def test_the_error_of_a_constructor_is_that_of_the_class_in_the_config(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        built(tmp_path, {"class_path": LSTM["class_path"], "init_args": LSTM["init_args"] | arguments})


def test_a_class_path_may_follow_its_option(tmp_path):
    options = ["--model.network.encoder.class_path", "vitspeech.WindowMLP", "--model.network.encoder.width", "16"]
    assert isinstance(built(tmp_path, {"depth": 3}, overrides=options).model.network.encoder, WindowMLP)
