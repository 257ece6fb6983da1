"""From a config to a finished run: a folder that keeps everything, and goes on where it was interrupted.

RUN/config.yaml          the resolved config
RUN/run.json             commit, hardware, versions
RUN/logs/                CSV and TensorBoard, one folder for each time the run was started
RUN/last.ckpt best.ckpt  for resuming: the last epoch's, and the one with the best validation accuracy
RUN/model/               the final weights in the released form
RUN/metrics.csv learning_curves.png confusion_matrix.png
"""

import json
import os
import platform
import subprocess
import sys
import warnings
from argparse import ArgumentError
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning
import torch
import yaml
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint, Timer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from vitspeech import checkpoint
from vitspeech.data.in_memory import ImageData
from vitspeech.evaluation import accuracy, confusion_matrix, wilson_interval
from vitspeech.run_report import draw_confusion_matrix, draw_learning_curves, merge_metrics
from vitspeech.tasks import Classification

EXAMPLES = """examples:
  train.py --config configs/shapes/vit.yaml
  train.py --config configs/cifar10/vit.yaml --config configs/trainer/gpu.yaml --model.network.init_args.depth 12
  train.py --resume runs/cifar10-vit/0"""


class TrainingCLI(LightningCLI):
    """Three parts, `data`, `model`, `trainer`; configs and overrides apply in the order given.

    Args:
        arguments: The command line without the program's name.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = list(arguments)
        super().__init__(
            Classification,
            ImageData,
            subclass_mode_data=True,
            run=False,
            save_config_callback=None,
            seed_everything_default=0,
            auto_configure_optimizers=False,
            # Our batches share themselves out among processes.
            trainer_defaults={"use_distributed_sampler": False, "max_epochs": 10},
            parser_kwargs={
                "prog": "train.py",
                "description": "Train a network from a config; the run keeps everything under runs/.",
                "epilog": EXAMPLES,
                "exit_on_error": False,
            },
            args=with_resumed_config(self.arguments),
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--run", type=str | None, help="the run's folder; default: runs/CONFIG'S NAME/NUMBER")
        parser.add_argument("--resume", type=str | None, help="a run's folder: go on where it stopped")
        parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=int)

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        try:
            super().parse_arguments(parser, args)
        except ArgumentError as error:
            reason = " ".join(str(error).split())
            # A mistake on the command line is one of usage (2), one in a file is bad input (1).
            sys.exit(fail(f"train.py: {reason}", 1 if "--config" in self.arguments and "config" in reason else 2))

    def instantiate_trainer(self, **kwargs: Any) -> lightning.Trainer:
        """Find the run's folder, then make the trainer that keeps its logs and checkpoints there."""
        self.run_folder = run_folder(self.config.resume, self.config.run, self.config.config)
        attempt = sum(1 for _ in (self.run_folder / "logs").glob("*"))
        logs = {"save_dir": self.run_folder, "name": "logs", "version": str(attempt)}
        self.timer = Timer(interval="step", verbose=False)
        saving = {
            "dirpath": self.run_folder,
            "enable_version_counter": False,
            "save_on_train_epoch_end": True,
        }
        self.trainer_defaults["callbacks"] = [
            LearningRateMonitor(logging_interval="step"),
            self.timer,
            ModelCheckpoint(filename="last", **saving),
            ModelCheckpoint(filename="best", monitor="val_accuracy", mode="max", **saving),
        ]
        loggers = [CSVLogger(**logs, flush_logs_every_n_steps=1), TensorBoardLogger(**logs)]
        return super().instantiate_trainer(logger=loggers, **kwargs)

    def train(self) -> None:
        """Fit, from the last checkpoint if there is one, then look at the test set once."""
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty.*")
        last = self.run_folder / "last.ckpt"
        if self.trainer.is_global_zero:
            self.keep_config()
        self.trainer.fit(self.model, self.datamodule, ckpt_path=last if last.exists() else None, weights_only=True)
        if self.trainer.interrupted:
            sys.exit(fail(f"interrupted; go on with: train.py --resume {self.run_folder}", 1))
        if self.trainer.is_global_zero:
            self.finish()

    def keep_config(self) -> None:
        config = self.config.clone()
        for name in ("config", "run", "resume"):
            config.pop(name, None)
        text = self.parser.dump(config, skip_none=False, skip_link_targets=True)
        (self.run_folder / "config.yaml").write_text(text)
        if not (self.run_folder / "run.json").exists():
            (self.run_folder / "run.json").write_text(json.dumps(provenance(), indent=2) + "\n")

    def finish(self) -> None:
        """Test the final weights in fp32, write model, curves and confusion matrix, and say where they are."""
        run, data = self.run_folder, self.datamodule
        network = self.model.network.eval().to(self.trainer.strategy.root_device)
        counts = confusion_matrix(network, data, progress=self.trainer.progress_bar_callback is not None)
        share, images = accuracy(counts), int(counts.sum())
        low, high = wilson_interval(share, images)
        config = yaml.safe_load((run / "config.yaml").read_text())
        card = {
            "name": run.parent.name,
            "data": config["data"],
            "split": "test",
            "metrics": {"test_accuracy": share, "interval_95": [low, high], "images": images},
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "seeds": [config["seed_everything"]],
            "minutes": round(self.timer.time_elapsed("train") / 60, 1),
            **json.loads((run / "run.json").read_text()),
        }
        preprocessing = {"image": data.image, "mean": list(data.mean), "deviation": list(data.deviation)}
        model = checkpoint.Model(network, list(data.labels), preprocessing, card, config["model"]["network"])
        checkpoint.save(model, run / "model")
        draw_learning_curves(merge_metrics(run), run / "learning_curves.png")
        draw_confusion_matrix(counts, data.labels, run / "confusion_matrix.png")
        print(f"test accuracy {share:.4f} (95 % interval {low:.4f} to {high:.4f}; {images:,} images, final weights)")
        print(f"model {run / 'model'}; pictures {run / 'learning_curves.png'}, {run / 'confusion_matrix.png'}")


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


def run_folder(resume: str | None, wanted: str | None, configs: Sequence[Any] | None) -> Path:
    """The folder to resume, the one asked for, or the next number under the first config's name.

    Raises:
        FileExistsError: If the folder asked for already holds a run.
    """
    given = resume or os.environ.get("VITSPEECH_RUN")
    if given:
        return Path(given)
    if wanted:
        folder = Path(wanted)
        if (folder / "config.yaml").exists():
            raise FileExistsError(f"{folder}: holds a run already; go on with --resume {folder}, or name another")
    else:
        first = Path(str(configs[0])) if configs else Path("run.yaml")
        name = f"{first.resolve().parent.name}-{first.stem}"
        taken = [int(path.name) for path in Path("runs", name).glob("*") if path.name.isdigit()]
        folder = Path("runs", name, str(max(taken, default=-1) + 1))
    folder.mkdir(parents=True, exist_ok=True)
    # Processes that Lightning starts for further devices run the same command and must find the same folder.
    os.environ["VITSPEECH_RUN"] = str(folder)
    return folder


def provenance() -> dict[str, Any]:
    """Commit, hardware and versions, for the card."""
    here = Path(__file__).resolve().parent
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=here, capture_output=True, text=True
    )
    if torch.cuda.is_available():
        hardware = f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    else:
        models = [line for line in read_lines("/proc/cpuinfo") if line.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else platform.processor() or platform.machine()
        hardware = f"{name}, {torch.get_num_threads()} cores"
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "lightning": lightning.__version__,
    }
    return {"commit": git.stdout.strip() or "unknown", "hardware": hardware, "versions": versions}


def read_lines(path: str) -> list[str]:
    """The lines of a file that not every system has."""
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def fail(message: str, status: int) -> int:
    """Say what is wrong in one line, and give the exit status."""
    print(message, file=sys.stderr)
    return status
