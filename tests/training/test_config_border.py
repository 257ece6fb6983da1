"""What a config may name, and how a mistake in one is reported: in one line, and without a run."""

from pathlib import Path

import pytest
import torch
import yaml
from tiny import TINY

from vitspeech.errors import InputError
from vitspeech.training import train as config_border
from vitspeech.training.train import TrainingCLI, train


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*arguments):
    """The message of a command line that is refused before there is a run."""
    with pytest.raises(InputError) as caught:
        train([*TINY, "--run", "run", *arguments])
    assert not Path("run").exists() and not Path("runs").exists()
    return str(caught.value)


CALLED = "lightning.pytorch.callbacks.LambdaCallback"


@pytest.mark.parametrize(
    "config, named",
    [
        ({"model": {"init_args": {"optimizer": {"class_path": "torch.hub.list"}}}}, "torch.hub.list"),
        (
            {"trainer": {"callbacks": {"class_path": CALLED, "init_args": {"on_fit_start": "torch.save"}}}},
            "trainer.callbacks.init_args.on_fit_start: torch.serialization.save",
        ),
        (
            {"trainer": {"callbacks": [{"class_path": CALLED, "init_args": {"on_fit_start": "vitspeech.load"}}]}},
            "vitspeech.checkpoint.model.load",
        ),
        (
            {
                "model": {
                    "init_args": {
                        "network": {
                            "class_path": "vitspeech.TimmModel",
                            "init_args": {"timm_name": "resnet18", "options": {"a": {"class_path": "torch.hub.load"}}},
                        }
                    }
                }
            },
            "torch.hub.load",
        ),
    ],
)
def test_functions_and_foreign_classes_are_refused_however_they_are_named(config, named):
    Path("bad.yaml").write_text(yaml.safe_dump(config))
    message = refused("--config=bad.yaml")
    assert named in message and "is not a part of a run" in message


@pytest.mark.parametrize("key", ["data", "model", "trainer.callbacks", "trainer.logger", "model.init_args.network"])
def test_a_value_is_never_read_from_a_file(key, capsys):
    Path("secret").write_text("my secret\n")
    value = str(Path("secret").resolve())
    for part in reversed(key.split(".")):
        value = {part: value}
    Path("bad.yaml").write_text(yaml.safe_dump(value))
    with pytest.raises(SystemExit):
        train([*TINY, "--run", "run", "--config=bad.yaml"])
    assert "my secret" not in capsys.readouterr().err and not Path("run").exists()


PAIR = ["--trainer.accelerator=cpu", "--trainer.devices=2", "--trainer.precision=32-true"]
EMA = "--trainer.callbacks+=lightning.pytorch.callbacks.EMAWeightAveraging"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--model.optimizer.init_args.lr=-1"], "Invalid learning rate: -1.0"),
        (["--model.network.init_args.width=-4"], "negative dimension -4"),
        (["--model.network.init_args.image=64"], r"(2, 3, 32, 32) are not (batch, 3, 64, 64)"),
        (["--trainer.strategy=nonsense"], "trainer: You selected an invalid strategy name"),
        (["--trainer.devices=999"], "trainer.devices=999: on the CPU that is the number of processes"),
        (["--trainer.strategy=ddp_spawn"], "its processes end with the training"),
        ([*PAIR, "--trainer.strategy=ddp", "--trainer.sync_batchnorm=true"], "synchronizes batch norm on GPUs only"),
        (["--config=trainer/fsdp", *PAIR, EMA], "weights that processes have divided cannot be averaged"),
        (["--trust=-m"], "--trust -m: is not the name of a module"),
        (["--model.network.init_args.positions=none", "--model=vitspeech.Recognition"], "Recognition"),
        (["--trainer.max_epochs=-5"], "trainer: `max_epochs` must be"),
        (["--trainer.max_epochs=0"], "trainer.max_epochs=0: nothing would be trained"),
        (["--trainer.max_steps=0"], "trainer.max_steps=0: nothing would be trained"),
        (["--trainer.limit_train_batches=0"], "trainer.limit_train_batches=0: nothing would be trained"),
        (["--trainer.overfit_batches=1"], "use limit_train_batches"),
        (["--trainer.max_time=00:01:00:00"], "trainer.max_time: it would end training before the learning rate"),
        (["--trainer.precision=bf16-true"], "trainer.precision=bf16-true: inputs are in fp32; known: auto, 32-true"),
        (["--seed_everything=true"], "seed_everything=True is not a number from 0 to 4294967295"),
        (["--seed_everything=-1"], "seed_everything=-1 is not a number from 0 to 4294967295"),
        (["--seed_everything=99999999999999999999"], "is not a number from 0"),
        (["--data.drawn_from=100000000000000000000"], "drawn_from=100000000000000000000 is not a number from 0"),
        (["--run=bad-\udcff"], r"--run 'bad-\udcff': not UTF-8; name another folder"),
        pytest.param(
            ["--config=trainer/gpu"],
            "trainer: ",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_values_that_do_not_fit_are_refused_before_there_is_a_run(arguments, message):
    assert message in refused(*arguments)


def test_a_run_that_lightning_stops_before_its_first_checkpoint_leaves_nothing():
    callback = '--trainer.callbacks={"class_path": "EarlyStopping", "init_args": {"monitor": "nothing"}}'
    assert "Early stopping conditioned on metric `nothing`" in refused(callback)


@pytest.mark.parametrize(
    "content, hint", [({"modle": {}}, "did you mean model?"), ({"x": None}, "known: data, every_minutes")]
)
def test_an_unknown_key_is_refused_even_without_a_value(content, hint):
    Path("bad.yaml").write_text(yaml.safe_dump(content))
    message = refused("--config=bad.yaml")
    assert message.startswith("bad.yaml: unknown key") and hint in message


def test_a_timm_network_of_one_size_gets_that_of_the_data():
    network = ["--model.network", "vitspeech.TimmModel", "--model.network.timm_name=vit_tiny_patch16_224"]
    cli = TrainingCLI([*TINY, *network])
    assert cli.config.model.init_args.network.init_args.image == 32
    assert cli.model.network(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_a_bug_of_ours_is_not_taken_for_a_mistake_in_the_config():
    ours = compile("def fail(values): return values['missing']", f"{config_border.PACKAGE}/models/some.py", "exec")
    library = compile("def fail(values): return values['missing']", "/site-packages/timm/some.py", "exec")
    for code, expected in ((ours, KeyError), (library, InputError)):
        names = {}
        exec(code, names)
        with pytest.raises(expected), config_border.config_errors("model"):
            names["fail"]({})


def test_trying_out_a_network_changes_neither_its_weights_nor_random_numbers(tmp_path):
    """The first batch norm of a CNN would show a forward pass in training mode."""
    arguments = [*TINY, "--model.network", "vitspeech.CNN", "--model.network.widths=[8, 8, 8]"]
    cli = TrainingCLI(arguments)
    cli.datamodule.setup("fit")
    before, numbers = {name: t.clone() for name, t in cli.model.state_dict().items()}, torch.get_rng_state()
    cli.model.smoke_test(cli.datamodule)
    assert all(torch.equal(before[name], tensor) for name, tensor in cli.model.state_dict().items())
    assert torch.equal(numbers, torch.get_rng_state()) and cli.model.network.training


@pytest.mark.parametrize(
    "option, shown",
    [
        (
            "--data.help=vitspeech.AudioFolder",
            ["_background_noise_", "(absolute or relative to ROOT)", "--data.seconds"],
        ),
        ("--data.help=AudioFolder", ["about a tenth of the training recordings is held out"]),
        ("--model.network.help=vitspeech.ViT", ["--network.patch PATCH"]),
    ],
)
def test_the_help_of_a_class_has_its_docstring(option, shown, capsys):
    with pytest.raises(SystemExit):
        train([option])
    printed = " ".join(capsys.readouterr().out.split())
    assert [text for text in shown if text not in printed] == [] and "Args:" not in printed


def test_training_without_an_end_and_values_that_hold_themselves_are_refused():
    assert "limit trainer.max_epochs" in refused("--trainer.max_epochs=-1")
    assert "alias" in refused("--data=&a [*a]")
