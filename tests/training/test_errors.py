"""What is wrong in a config or a command line is told in one line, before there is a run."""

import os
import sys
from pathlib import Path

import pytest
import torch
import yaml
from running import one_line
from tiny import TINY

from vitspeech.errors import InputError
from vitspeech.training.config import config_errors
from vitspeech.training.train import TrainingCLI, train


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(command, folder):
    """The message of a command line that is refused before there is a run."""

    def message(*arguments: str, status: int = 1) -> str:
        line = one_line(command("train", *TINY, "--run", "run", *arguments), status)
        assert not Path("run").exists() and not Path("runs").exists()
        return line.removeprefix("vitspeech train: ")

    return message


PROGRAM = "torch.utils.model_dump.__main__.main"  # importing that module runs it
CALLED = "lightning.pytorch.callbacks.LambdaCallback"


def network(arguments: str) -> str:
    """A config of a network alone."""
    return f"model: {{init_args: {{network: {{{arguments}}}}}}}"


def optimizer(arguments: str) -> str:
    """A config of an optimizer alone."""
    return network(arguments).replace("network", "optimizer")


IN_CONFIGS = {
    network(
        "init_args: {widht: 192}"
    ): "model.network: vitspeech.ViT: Option 'widht' is not accepted; did you mean width",
    "model: {warmpu: 0.1}": "model: vitspeech.Classification: Option 'warmpu' is not accepted; did you mean warmup?",
    optimizer("init_args: {wieght_decay: 0.1}"): "Option 'wieght_decay' is not accepted; did you mean weight_decay?",
    optimizer("class_path: timm.optim.Mun"): "model.optimizer: timm.optim.Mun: module 'timm.optim' has no",
    network("init_args: {encoder: {dept: 3}}"): "Option 'dept' is not accepted; did you mean depth?",
    network("init_args: {encoder: {norm: mid}}"): "norm: Expected a typing.Literal['pre', 'post']. Got value: mid",
    network("init_args: {width: wide}"): "model.network.width: Expected a <class 'int'>. Got value: wide",
    "model: {class_path: vitspeech.Recogniton}": "module 'vitspeech' has no attribute 'Recogniton'",
    "data: {class_path: vitspeech.Shape}": "data: vitspeech.Shape: module 'vitspeech' has no attribute 'Shape'",
    "trainer: {max_epoch: 3}": "Group 'trainer' does not accept option 'max_epoch'; did you mean trainer.max_epochs?",
    "trainer: {zzz: 3}": "Group 'trainer' does not accept option 'zzz'",
    "modle: {warmup: 0.1}": "unknown key 'modle'; did you mean model?",
    "x:": "unknown key 'x'",  # which the parser overlooks
    "model: [": "line 2: ",
    "[1, 2]": "not a config",
    "init_from: [1]": "init_from: [1] is not the path of a folder",
    "extends: [1]": "extends: [1] is not the path of a config",
    optimizer("init_args: {lr: .inf}"): "model.init_args.optimizer.init_args.lr: inf is not a finite number",
    network("class_path: mine.Net"): "mine.Net is not part of vitspeech",
    "data: {class_path: vitspeech.SpeechCommands, init_args: {words: [yes, no]}}": "put yes, no, on and off in quotes",
}


@pytest.mark.parametrize("text", IN_CONFIGS)
def test_a_mistake_in_a_config_is_told_with_the_file(text, refused):
    Path("bad.yaml").write_text(text)
    message = refused("--config=bad.yaml")
    assert message.startswith("bad.yaml: ") and IN_CONFIGS[text] in message


USAGE = {
    "--trainer.max_epoch=3": "unrecognized arguments: --trainer.max_epoch=3; did you mean --trainer.max_epochs?",
    "--max_epochs=3": "unrecognized arguments: --max_epochs=3; did you mean --trainer.max_epochs?",
    "--seed_everythin=3": "unrecognized arguments: --seed_everythin=3; did you mean --seed_everything?",
    "--lr=0.1": "unrecognized arguments: --lr=0.1; did you mean --model.optimizer.lr?",
    "--learning-rate=0.1": "did you mean --model.optimizer.lr?",
    "--epochs=3": "did you mean --trainer.max_epochs?",
    "--batch_size=3": "did you mean --data.batch?",
    "--batch-size=3": "did you mean --data.batch?",
    "--depth=3": "did you mean --model.network.encoder.depth?",
    "shapes/vit": "unrecognized arguments: shapes/vit; did you mean --config shapes/vit?",
    "--zzz=3": "unrecognized arguments: --zzz=3",
    "--model.warmpu=0.1": "did you mean warmup?",
    "--model.network.encoder.dept=3": "did you mean depth?",
    "--trainer.precision=fast": "Expected a typing.Literal['auto']",
    "--seed_everything=true": "seed_everything: Expected a <class 'int'>",
    "--trainer.callbacks+=EarlyStopping": "the following arguments are required: monitor",
    "--data=&a [*a]": "data: ",
}


@pytest.mark.parametrize("option", USAGE)
def test_a_mistake_on_the_command_line_is_an_error_of_usage(option, refused):
    assert USAGE[option] in refused(option, status=2)


PAIR = "--trainer.accelerator=cpu --trainer.devices=2 --trainer.precision=32-true"
EMA = "--trainer.callbacks+=lightning.pytorch.callbacks.EMAWeightAveraging"
VALUES = {
    "--config=shape/vitt": "did you mean shapes/vit",
    "--config": "no config is named",
    "--model.optimizer.init_args.lr=-1": "Invalid learning rate: -1.0",
    "--model.optimizer.init_args.lr=.nan": "model.init_args.optimizer.init_args.lr: nan is not a finite number",
    "--trainer.gradient_clip_val=.inf": "trainer.gradient_clip_val: inf is not a finite number",
    "--trainer.gradient_clip_val=-1.5": "trainer.gradient_clip_val=-1.5 is not a number from 0",
    "--trainer.accumulate_grad_batches=0": "trainer.accumulate_grad_batches=0 is not a number from 1",
    "--trainer.fast_dev_run=true": "fast_dev_run would leave a run that looks finished",
    "--trainer.limit_val_batches=0": "no epoch would be validated",
    "--trainer.check_val_every_n_epoch=3": "no epoch would be validated",
    "--trainer.limit_test_batches=0.5": "the test set is measured as a whole",
    "--model.network.init_args.width=-4": "negative dimension -4",
    "--model.network.encoder.heads=5": "heads=5 does not divide width=16",
    "--model.network.init_args.image=64": "image=64, but the images of the data have 32 pixels",
    "--model.network.classes=7": "the network has 7 classes, the data 10 labels",
    "--model=vitspeech.Recognition": "Recognition does not fit Shapes",
    "--data.batch=5000": "batch=5000 is more than",
    "--data.count=7": "count=7 is not a number from 50",
    "--data.drawn_from=100000000000000000000": "is not a number from 0",
    "--seed_everything=-1": "seed_everything=-1 is not a number from 0 to 4294967295",
    "--every_steps=-5": "every_steps=-5",
    "--every_minutes=-1": "every_minutes=-1",
    "--trainer.strategy=nonsense": "trainer: You selected an invalid strategy name",
    "--trainer.devices=999 --trainer.accelerator=cpu": "trainer.devices=999 is the number of processes on the CPU",
    "--trainer.strategy=ddp_spawn": "its processes end with the training",
    f"--config=trainer/fsdp {PAIR} {EMA}": "weights that processes have divided cannot be averaged",
    "--trainer.max_epochs=-1": "limit trainer.max_epochs",
    "--trainer.max_epochs=0": "trainer.max_epochs=0: nothing would be trained",
    "--trainer.overfit_batches=1": "use limit_train_batches",
    "--trainer.max_time=00:01:00:00": "trainer.max_time would end training before the learning rate",
    "--trainer.precision=bf16-true": "inputs are in fp32; known: auto, 32-true",
    "--trust=-m": "not the name of a module",
    "--init_from_least=0.5": "--init_from_least: is for --init_from",
    "--trainer=secret": "--trainer: has keys",
    "--trust": "--trust: expected at least one argument",
    "--run=bad-\udcff": "not UTF-8; name another folder",
}


@pytest.mark.parametrize("options", VALUES)
def test_values_that_do_not_fit_are_refused_before_there_is_a_run(options, refused):
    assert VALUES[options] in refused(*options.split())


def test_the_defaults_of_limits_may_be_spelled_out():
    limits = [f"--trainer.limit_{name}_batches=1.0" for name in ("test", "predict")]
    assert TrainingCLI([*TINY, *limits]).trainer.limit_test_batches == 1


def test_a_callback_of_an_unknown_metric_is_told_in_one_line_and_leaves_no_run(command, tmp_path):
    stopping = ["--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=nothing"]
    run = tmp_path / "run"
    assert "conditioned on metric `nothing`" in one_line(command("train", *TINY, f"--run={run}", *stopping))
    assert not run.exists()


@pytest.mark.parametrize(
    "config, named",
    [
        ({"model": {"init_args": {"optimizer": {"class_path": "torch.hub.list"}}}}, "torch.hub.list"),
        (
            {"trainer": {"callbacks": {"class_path": CALLED, "init_args": {"on_fit_start": "torch.save"}}}},
            "torch.save",
        ),
        (
            {"trainer": {"callbacks": [{"class_path": CALLED, "init_args": {"on_fit_start": "vitspeech.load"}}]}},
            "vitspeech.inference.model.load",
        ),
        (
            yaml.safe_load(
                network(
                    "class_path: vitspeech.TimmModel, init_args: {timm_name: resnet18, options: "
                    "{a: {class_path: torch.hub.load}}}"
                )
            ),
            "torch.hub.load",
        ),
        ({"trainer": {"logger": {"class_path": PROGRAM}}}, PROGRAM),
        ({"model": {"init_args": {"network": {"init_args": {"encoder": {"class_path": PROGRAM}}}}}}, PROGRAM),
    ],
)
def test_functions_and_foreign_classes_are_refused_however_they_are_named(config, named, refused):
    Path("bad.yaml").write_text(yaml.safe_dump(config))
    message = refused("--config=bad.yaml")
    assert named in message and "is not a part of a run" in message
    assert "torch.utils.model_dump.__main__" not in sys.modules


def test_a_text_in_the_place_of_the_trainer_is_not_opened_as_a_file(refused):
    os.mkfifo("pipe")  # which would be waited for
    Path("bad.yaml").write_text("trainer: pipe")
    assert "bad.yaml: trainer: " in refused("--config=bad.yaml")


MESSAGE = "a\n  - Problem with given class_path 'evil_module.Net':\n      - Option 'b' is not accepted 'c' x"


@pytest.mark.parametrize("key", ["data", "trainer.max_epochs", "model.init_args.optimizer", "model.init_args.network"])
@pytest.mark.parametrize("value", [MESSAGE, {MESSAGE: 1}, "a\n        unrecognized", "a\n        accept"])
def test_a_value_that_reads_like_a_message_imports_nothing(key, value, refused, monkeypatch):
    Path("evil_module.py").write_text("from pathlib import Path\nPath('executed').touch()")
    monkeypatch.syspath_prepend(".")
    for part in reversed(key.split(".")):
        value = {part: value}
    Path("bad.yaml").write_text(yaml.safe_dump(value))
    assert refused("--config=bad.yaml").startswith("bad.yaml: ")
    assert not Path("executed").exists() and "evil_module" not in sys.modules


@pytest.mark.parametrize("key", ["data", "model", "trainer.callbacks", "trainer.logger", "model.init_args.network"])
def test_a_value_is_never_read_from_a_file(key, refused):
    Path("secret").write_text("my secret\n")
    value = str(Path("secret").resolve())
    for part in reversed(key.split(".")):
        value = {part: value}
    Path("bad.yaml").write_text(yaml.safe_dump(value))
    assert "my secret" not in refused("--config=bad.yaml")


def test_an_error_while_a_run_is_built_is_about_the_config():
    with pytest.raises(InputError, match=r"^model: 'missing' \(KeyError\)$"), config_errors("model"):
        raise KeyError("missing")
    with pytest.raises(FileNotFoundError), config_errors("model"):
        raise FileNotFoundError("x")


def test_a_timm_network_of_one_size_gets_that_of_the_data():
    network = ["--model.network", "vitspeech.TimmModel", "--model.network.timm_name=vit_tiny_patch16_224"]
    cli = TrainingCLI([*TINY, *network])
    assert cli.config.model.init_args.network.init_args.image == 32
    assert cli.model.network(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_trying_out_a_network_changes_neither_its_weights_nor_random_numbers():
    """The first batch norm of a CNN would show a forward pass in training mode."""
    cli = TrainingCLI([*TINY, "--model.network", "vitspeech.CNN", "--model.network.widths=[8, 8, 8]"])
    cli.datamodule.setup("fit")
    before, numbers = {name: t.clone() for name, t in cli.model.state_dict().items()}, torch.get_rng_state()
    cli.model.smoke_test(cli.datamodule)
    assert all(torch.equal(before[name], tensor) for name, tensor in cli.model.state_dict().items())
    assert torch.equal(numbers, torch.get_rng_state()) and cli.model.network.training


@pytest.mark.parametrize(
    "option, shown",
    [
        ("--data.help=vitspeech.AudioFolder", ["(absolute or relative to ROOT)", "--data.seconds"]),
        ("--data.help=AudioFolder", ["a tenth of the training recordings of each word is held out"]),
        ("--model.network.help=vitspeech.ViT", ["--network.patch PATCH"]),
    ],
)
def test_the_help_of_a_class_has_its_docstring(option, shown, capsys):
    with pytest.raises(SystemExit):
        train([option])
    printed = " ".join(capsys.readouterr().out.split())
    assert [text for text in shown if text not in printed] == [] and "Args:" not in printed
