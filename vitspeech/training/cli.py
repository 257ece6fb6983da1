"""From a config to a finished run: a folder that keeps everything, and goes on where it was interrupted.

RUN/config.yaml          the resolved config
RUN/run.json             commit, hardware, versions
RUN/logs/                CSV and TensorBoard, one folder for each time the run was started
RUN/last.ckpt best.ckpt  for resuming: the last epoch's, and the one with the best validation accuracy
RUN/model/               the final weights in the released form, with their card
RUN/metrics.csv learning_curves.png
RUN/confusion_matrix.png or errors.txt: what the test has to show
"""

import argparse
import json
import logging
import os
import sys
import warnings
from argparse import ArgumentError
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import lightning
import yaml
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, Timer, WeightAveraging
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from vitspeech import checkpoint
from vitspeech.data.batches import InMemoryData
from vitspeech.data.files import write_text
from vitspeech.evaluation import evaluate
from vitspeech.plots.curves import draw_learning_curves, merge_metrics
from vitspeech.provenance import provenance
from vitspeech.tasks import TASKS

QUIET = (
    "LightningCLI's args parameter",
    ".*does not have many workers",
    "Checkpoint directory .* exists and is not empty",
    "The number of training batches .* is smaller than the logging interval",
    ".*treespec, LeafSpec",
)


class TrainingCLI(LightningCLI):
    """Three parts, `data`, `model`, `trainer`; configs and overrides apply in the order given.

    Args:
        arguments: The command line without the program's name.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
        logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
        for message in QUIET:
            warnings.filterwarnings("ignore", message=message)
        arguments = with_resumed_config(arguments)
        self.task = task_of(arguments)
        super().__init__(
            TASKS[self.task],
            InMemoryData,
            subclass_mode_data=True,
            run=False,
            save_config_callback=None,
            seed_everything_default=0,
            auto_configure_optimizers=False,
            # Our batches share themselves out among processes.
            trainer_defaults={"use_distributed_sampler": False, "enable_model_summary": False, "max_epochs": 10},
            parser_kwargs={"prog": "train.py", "exit_on_error": False},
            args=arguments,
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--task", type=Literal[tuple(TASKS)], default="classification", help="what is trained")
        parser.add_argument("--run", type=str | None, help="the run's folder; default: runs/CONFIG'S NAME/NUMBER")
        parser.add_argument("--resume", type=str | None, help="a run's folder: go on where it stopped")
        parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=int)

    def parse_arguments(self, parser: LightningArgumentParser, args: list[str]) -> None:
        try:
            super().parse_arguments(parser, args)
        except ArgumentError as error:
            reason = " ".join(str(error).split())
            file = wrong_config(parser, args, str(error))
            print(f"train.py: {file + ': ' if file else ''}{reason}", file=sys.stderr)
            sys.exit(1 if file else 2)  # bad input in a file, or a mistake of usage

    def instantiate_trainer(self, **kwargs: Any) -> lightning.Trainer:
        """Find the run's folder, then make the trainer that keeps its logs and checkpoints there."""
        self.folder = run_folder(self.config.resume, self.config.run, self.config.config)
        attempt = sum(1 for _ in (self.folder / "logs").glob("*"))
        logs = {"save_dir": self.folder, "name": "logs", "version": str(attempt)}
        saving = {"dirpath": self.folder, "enable_version_counter": False, "save_on_train_epoch_end": True}
        task = TASKS[self.task]
        self.timer = Timer(interval="step", verbose=False)
        self.trainer_defaults["callbacks"] = [
            LearningRateMonitor(logging_interval="step"),
            self.timer,
            ModelCheckpoint(filename="last", **saving),
            ModelCheckpoint(filename="best", monitor=task.monitor, mode=task.mode, **saving),
        ]
        loggers = [CSVLogger(**logs, flush_logs_every_n_steps=1), TensorBoardLogger(**logs)]
        return super().instantiate_trainer(logger=loggers, **kwargs)

    def train(self) -> None:
        """Fit, from the last checkpoint if there is one, then look at the test set once."""
        # What is wrong with the data is said before anything is written.
        if hasattr(self.datamodule, "units") != self.model.sequences:
            given = "transcripts" if hasattr(self.datamodule, "units") else "one label each"
            raise ValueError(
                f"task: {self.task} does not fit {type(self.datamodule).__name__}, whose items have {given}"
            )
        self.datamodule.prepare_data()
        self.datamodule.setup("fit")
        last = self.folder / "last.ckpt"
        if self.trainer.is_global_zero:
            self.keep_config()
        try:
            self.trainer.fit(self.model, self.datamodule, ckpt_path=last if last.exists() else None, weights_only=True)
        except SystemExit:  # how Lightning ends a run at Ctrl-C
            sys.exit(f"train.py: interrupted; go on with --resume {self.folder}")
        if self.trainer.is_global_zero:
            self.finish()

    def keep_config(self) -> None:
        """Write the resolved config and where the run is made, and say what is about to be trained."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.config.clone()
        for name in ("config", "run", "resume"):
            config.pop(name, None)
        context = getattr(self.model.network, "context_ms", {})
        stated = "".join(f"# {name}: {value}\n" for name, value in context.items())
        text = stated + self.parser.dump(config, skip_none=False, skip_link_targets=True)
        write_text(text, self.folder / "config.yaml")
        if not (self.folder / "run.json").exists():
            (self.folder / "run.json").write_text(json.dumps(provenance(), indent=2) + "\n")
        parameters = sum(parameter.numel() for parameter in self.model.network.parameters())
        print(f"{self.config.model.network.class_path}, {parameters:,} parameters -> {self.folder}")

    def finish(self) -> None:
        """Test the final weights in fp32, write model, curves and what the test has to show, and say where they are."""
        run, data = self.folder, self.datamodule
        for callback in self.trainer.callbacks:
            if isinstance(callback, WeightAveraging):
                # Lightning did this at the end of training, but not if a resumed run had nothing left to train.
                callback.on_train_end(self.trainer, self.model)
        network = self.model.network.eval().float().to(self.trainer.strategy.root_device)
        report = evaluate(network, data, progress=self.trainer.progress_bar_callback is not None)
        config = yaml.safe_load((run / "config.yaml").read_text())
        card = {
            "name": run.parent.name,
            "data": test_set(config["data"]),
            "split": "test",
            "metrics": report.metrics,
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            **getattr(network, "context_ms", {}),
            "seeds": [config["seed_everything"]],
            "minutes": round(self.timer.time_elapsed("train") / 60, 1),
            **json.loads((run / "run.json").read_text()),
        }
        model = checkpoint.Model(network, list(data.labels), data.preprocessing, card, config["model"]["network"])
        checkpoint.save(model, run / "model")
        draw_learning_curves(merge_metrics(run), run / "learning_curves.png")
        print(f"test set, final weights: {report.text}")
        print(f"model {run / 'model'}; to look at: {run / 'learning_curves.png'}, {report.write(run)}")


def task_of(arguments: Sequence[str]) -> str:
    """The task that the last config or `--task` on the command line names; what is trained follows from it, and with
    it which keys `model` has."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--task")
    known, _ = parser.parse_known_args(arguments)
    named = known.task
    for file in known.config:
        try:
            config = yaml.safe_load(Path(file).read_text())
        except (OSError, yaml.YAMLError):
            continue  # the parser proper says what is wrong with it
        if isinstance(config, dict) and not known.task:
            named = config.get("task", named)
    return named if isinstance(named, str) and named in TASKS else "classification"


def with_resumed_config(arguments: Sequence[str]) -> list[str]:
    """Put the config of the run named by `--resume` before everything else on the command line.

    Raises:
        FileNotFoundError: If there is no such run.
    """
    arguments = list(arguments)
    for place, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if name == "--resume":
            run = value or (arguments[place + 1] if place + 1 < len(arguments) else "")
            if not (Path(run) / "config.yaml").is_file():
                raise FileNotFoundError(f"{run or '--resume'}: no run to resume; it has no config.yaml")
            return ["--config", str(Path(run) / "config.yaml"), *arguments]
    return arguments


def wrong_config(parser: LightningArgumentParser, arguments: Sequence[str], reason: str) -> str | None:
    """The config file that by itself, after those before it, gives this error; `None` if the command line does."""
    finder = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    finder.add_argument("--config", action="append", default=[])
    configs = finder.parse_known_args(list(arguments))[0].config
    for count in range(1, len(configs) + 1):
        try:
            parser.parse_args([f"--config={config}" for config in configs[:count]])
        except ArgumentError as error:
            if str(error) == reason:
                return configs[count - 1]
    return None


def run_folder(resume: str | None, wanted: str | None, configs: Sequence[Any] | None) -> Path:
    """The folder to resume, the one asked for, or the next number under the first config's name.

    Raises:
        FileExistsError: If the folder asked for already holds a run.
    """
    # A process that Lightning starts for a further device runs the same command and must find the same folder.
    given = resume or ("LOCAL_RANK" in os.environ and os.environ.get("VITSPEECH_RUN"))
    if given:
        return Path(given)
    if wanted:
        folder = Path(wanted)
        if (folder / "config.yaml").exists():
            raise FileExistsError(f"{folder}: holds a run already; go on with --resume {folder}, or name another")
    else:
        first = Path(str(configs[0])).resolve() if configs else Path("run.yaml").resolve()
        name = f"{first.parent.name}-{first.stem}"
        taken = [int(path.name) for path in Path("runs", name).glob("*") if path.name.isdigit()]
        folder = Path("runs", name, str(max(taken, default=-1) + 1))
    os.environ["VITSPEECH_RUN"] = str(folder)
    return folder


def test_set(data: dict[str, Any]) -> dict[str, Any]:
    """A data set's configuration without what only training needs, and without this machine's folder."""
    training_only = {"root", "batch", "augment", "download", "workers"}
    arguments = {
        name: test_set(value) if isinstance(value, dict) and "class_path" in value else value
        for name, value in data["init_args"].items()
        if name not in training_only
    }
    return {"class_path": data["class_path"], "init_args": arguments}
