"""The border between a config and the run: what a config may name, and whose error it is if building fails.

A parsed config holds class paths with arguments, and objects that its strings named. `check_objects` refuses everything
but classes that a run is made of. `config_errors` tells a mistake in a config from a bug of the package.

What a network takes from the data: numbers of classes, units and symbols, the side of images, the sample rate.

Training from the command line: from a config to a finished run, which can be interrupted and resumed at any time.

`run_folder.py` says what the folder of a run contains.
"""

import logging
import os
import sys
import traceback
import warnings
from argparse import ArgumentError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import isclass, isroutine
from pathlib import Path
from typing import Any

import lightning
import torch
import yaml
from jsonargparse import Namespace
from lightning.fabric.plugins import CheckpointIO, ClusterEnvironment
from lightning.fabric.plugins.precision import Precision
from lightning.pytorch import Callback, LightningDataModule
from lightning.pytorch.accelerators import Accelerator, CPUAccelerator
from lightning.pytorch.callbacks import LearningRateMonitor, ProgressBar, Timer, WeightAveraging
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins.layer_sync import LayerSync
from lightning.pytorch.profilers import Profiler
from lightning.pytorch.strategies import ModelParallelStrategy, Strategy
from lightning.pytorch.strategies.launchers.multiprocessing import _MultiProcessingLauncher
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn
from torch.optim import Optimizer

from vitspeech.checkpoint.card import check_labels
from vitspeech.checkpoint.leakage import add_training_items
from vitspeech.data.module import DataModule, read_labels
from vitspeech.errors import MOST_SEED, InputError, check_number
from vitspeech.provenance import provenance
from vitspeech.tasks import Task, find_task
from vitspeech.tasks.sharding import is_sharded, whole_weights
from vitspeech.training import run_folder
from vitspeech.training.callbacks import OpenRun, Progress
from vitspeech.training.checkpoints import LAST, PREVIOUS, checkpoints
from vitspeech.training.config import (
    Parser,
    foreign_modules,
    plain_settings,
    prepare,
    readable,
    restrict_imports,
    suggestion,
    take_option,
    wrong_config,
)
from vitspeech.training.init_from import find_weights, keep
from vitspeech.training.interrupts import RunLock, clear_ending
from vitspeech.training.trainer import (
    Trainer,
    after_restart,
    divide_steps,
    fill_precision,
    leave,
    one_message,
    share_network,
)
from vitspeech.trust import import_modules, import_trusted

PACKAGE, LIGHTNING = Path(__file__).parents[1], Path(lightning.__file__).parent
PARTS = (nn.Module, Optimizer, LightningDataModule, Callback, Logger, Profiler, Accelerator, Strategy)
PARTS += (Precision, CheckpointIO, ClusterEnvironment, LayerSync)  # plugins of the trainer


def check_objects(config: Any, trust: Sequence[str] = (), key: str = "") -> None:
    """Refuse functions, and classes that no part of a run is made of, wherever a parsed config names them.

    The parser accepts any callable where an argument is annotated as one, and the run would call it.

    Args:
        config: What the parser returns.
        trust: Modules that `--trust` names; all that they define is accepted.
        key: The key of `config`, for the message.

    Raises:
        InputError: If there is one; the message has its key.
    """
    config = vars(config) if isinstance(config, Namespace) else config
    if isinstance(config, dict):
        if isinstance(config.get("class_path"), str):
            check_object(import_trusted(config["class_path"], trust), trust, key)
        for name, value in config.items():
            check_objects(value, trust, f"{key}.{name}" if key else str(name))
    elif isinstance(config, list | tuple):
        for value in config:
            check_objects(value, trust, key)
    elif isroutine(config) or isclass(config):
        check_object(config, trust, key)


def check_object(value: Any, trust: Sequence[str], key: str) -> None:
    """Refuse a class or function, unless it is a part of a run, a class of vitspeech, or of a trusted module.

    Raises:
        InputError: If it is none of these.
    """
    module = f"{getattr(value, '__module__', '')}."
    trusted = any(module.startswith(f"{name}.") for name in trust)
    if not trusted and not (isclass(value) and (issubclass(value, PARTS) or module.startswith("vitspeech."))):
        name = f"{module}{getattr(value, '__qualname__', value)}"
        raise InputError(f"{key}: {name} is not a part of a run, such as a network, an optimizer or a callback")


def check_trainer(trainer: lightning.Trainer, max_time: Any = None) -> None:
    """Refuse a trainer that would not train on the batches of the data, and what a run cannot have.

    Args:
        trainer: The trainer.
        max_time: Its argument of this name, which it does not keep.

    Raises:
        InputError: If it is one of these.
    """
    if max_time is not None:
        raise InputError(
            "trainer.max_time: it would end training before the learning rate has decayed; set max_epochs, or end the "
            "run with SIGTERM and resume it"
        )
    for name in ("max_epochs", "max_steps", "limit_train_batches"):
        if getattr(trainer, name) == 0:
            raise InputError(f"trainer.{name}=0: nothing would be trained")
    if trainer.overfit_batches:
        raise InputError("trainer.overfit_batches: its batches are not those of the data; use limit_train_batches")
    check_strategy(trainer)


def check_strategy(trainer: lightning.Trainer) -> None:
    """Refuse strategies that end without the trained weights, what does not go together, and too many processes.

    On the CPU there may be one for each core. Processes that torchrun or SLURM starts are the user's own choice.

    Raises:
        InputError: If it is one of these.
    """
    if isinstance(trainer.strategy.launcher, _MultiProcessingLauncher):
        raise InputError("trainer.strategy: its processes end with the training, before the test; use ddp")
    on_cpu = isinstance(trainer.accelerator, CPUAccelerator)
    if on_cpu and trainer._accelerator_connector._layer_sync is not None and trainer.world_size > 1:
        raise InputError("trainer.sync_batchnorm: PyTorch synchronizes batch norm on GPUs only; set it to false")
    sharded = isinstance(trainer.strategy, ModelParallelStrategy)
    if sharded and any(isinstance(callback, WeightAveraging) for callback in trainer.callbacks):
        raise InputError("trainer.strategy: weights that processes have divided cannot be averaged; use ddp")
    cores, cluster = os.cpu_count() or 1, getattr(trainer.strategy, "cluster_environment", None)
    started = cluster is not None and cluster.creates_processes_externally
    if on_cpu and trainer.num_devices > cores and not started:
        raise InputError(
            f"trainer.devices={trainer.num_devices}: on the CPU that is the number of processes, and this machine has "
            f"{cores} cores"
        )


@contextmanager
def config_errors(key: str, *, all_errors: bool = False) -> Iterator[None]:
    """Turn an error about values of a config into an `InputError` of one line.

    These are the errors that libraries raise when they are called with the values, and torch's RuntimeError, wherever
    it is raised. Any other error raised by a line of this package is a bug, and stays as it is.

    Args:
        key: The part of the config, for the message.
        all_errors: Turn the errors of this package's lines, too.

    Raises:
        InputError: Instead of such an error.
    """
    try:
        yield
    except (InputError, OSError, KeyboardInterrupt):
        raise
    except Exception as error:
        origin = first_cause(error)  # the parser nests it in messages of its own
        if isinstance(origin, InputError | OSError):
            raise origin from None
        if (
            not all_errors
            and raised_in(origin, PACKAGE)
            and not isinstance(origin, RuntimeError | MisconfigurationException)
        ):
            raise
        kind = "" if isinstance(origin, ValueError | MisconfigurationException) else f" ({type(origin).__name__})"
        raise InputError(f"{key}: {origin}{kind}") from error


@contextmanager
def trainer_errors() -> Iterator[None]:
    """Turn errors that Lightning raises itself while it trains, and those about memory, into an `InputError`.

    They are about options of the trainer, such as a callback that monitors a metric that is not logged.

    Raises:
        InputError: Instead of such an error.
    """
    try:
        yield
    except (InputError, OSError):
        raise
    except torch.OutOfMemoryError as error:
        raise InputError(f"out of memory: {error}; take a smaller data.batch or network") from error
    except Exception as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
            raise InputError(f"out of memory: {error}; take a smaller data.batch or network") from error
        if not raised_in(error, LIGHTNING) and not isinstance(error, MisconfigurationException):
            raise
        raise InputError(f"trainer: {error}") from error


def first_cause(error: BaseException) -> BaseException:
    """The error that a chain of errors (`raise ... from`) began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def raised_in(error: BaseException, package: Path) -> bool:
    """Whether the line that raised an error is in a package."""
    lines = traceback.extract_tb(error.__traceback__)
    return bool(lines) and package in Path(lines[-1].filename).parents


def fill_sizes(config: Namespace, data: DataModule, trust: Sequence[str]) -> None:
    """Set `classes`, `units`, `image` and `symbols` of the network in a config where they are left out."""
    network = config.model.init_args.get("network")
    sizes = getattr(network, "init_args", None) or {}
    names = ("classes", "units", "image", "symbols")
    missing = [name for name in names if name in sizes and not sizes[name]]
    if missing:
        task = find_task(config.model.class_path, trust)
        known = task.network_sizes(read_labels(data))
        preprocessing = data.preprocessing
        known |= {"image": preprocessing.get("image"), "symbols": len(preprocessing.get("symbols", ()))}
        for name in known.keys() & set(missing):
            sizes[name] = known[name]


def check_sizes(config: Namespace, task: Task, data: DataModule) -> None:
    """Refuse labels that a model cannot have, and a number of classes or units or a sample rate other than the data's.

    Raises:
        InputError: If a label is there twice or not one line of text, if the network has another sample rate, or if the
            config gives a network of vitspeech another number of classes or units.
    """
    check_labels(list(data.labels))
    check_sample_rate(task, data)
    network = config.model.init_args.get("network")
    if not str(getattr(network, "class_path", "")).startswith("vitspeech."):
        return
    for name, size in task.network_sizes(list(data.labels)).items():
        value = network.init_args.get(name, size)
        if value != size:
            labels = len(data.labels)
            raise InputError(
                f"the network has {name}={value}, the data {labels} labels: leave {name} out of the config, or "
                f"give {size}"
            )


def check_sample_rate(task: Task, data: DataModule) -> None:
    """Refuse a log-mel spectrogram at another sample rate than the data.

    Raises:
        InputError: If the sample rates differ.
    """
    own_hz = getattr(getattr(getattr(task.network, "tokens", None), "log_mel", None), "sample_rate_hz", None)
    rate_hz = data.preprocessing.get("sample_rate_hz")
    if own_hz is not None and rate_hz is not None and own_hz != rate_hz:
        raise InputError(
            f"the network takes speech at {own_hz:,} Hz, the data is at {rate_hz:,} Hz: give its tokens "
            f"sample_rate_hz={rate_hz}"
        )


PROGRAM = "vitspeech train"
QUIET = (
    "LightningCLI's args parameter",
    ".*does not have many workers",
    "Checkpoint directory .* exists and is not empty",
    "The number of training batches .* is smaller than the logging interval",
    ".*treespec, LeafSpec",
    "You're using the WeightAveraging callback with a model that overrides the configure_model",  # for FSDP2 only
    "You're resuming from a checkpoint that ended before the epoch ended",  # `Batches` begins where it ended
)


def train(arguments: Sequence[str]) -> None:
    """Train from the command line. A finished run is reported and not changed.

    Args:
        arguments: The command line without the program's name.

    Raises:
        FileNotFoundError: If a config, the data or the run to resume does not exist.
        InputError: If config, network and data do not fit each other, or a class is not trusted.
    """
    arguments = after_restart(arguments)
    resumed, others = take_option(arguments, "--resume")
    if resumed and run_folder.is_finished(resumed[-1]):
        run_folder.resumed_config(resumed[-1])
        ignored = f", and {' '.join(others)} has no effect" if others else ""
        print(f"{resumed[-1]} is finished; there is nothing to resume{ignored}")
        return
    TrainingCLI(arguments).train()


class TrainingCLI(LightningCLI):
    """The parser of `train`, and the task, data and trainer that a command line describes.

    A config has three parts: `data`, `model` and `trainer`. Configs and overrides apply in their order.

    Args:
        arguments: The command line without the program's name.

    Raises:
        FileNotFoundError: If a config, the data or the run to resume does not exist.
        InputError: If config, network and data do not fit each other, or a class is not trusted.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
        logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
        for message in QUIET:
            warnings.filterwarnings("ignore", message=message)
        self.arguments = prepare(arguments)
        restrict_imports(self.arguments.trust)
        import_modules(self.arguments.trust)
        super().__init__(
            Task,
            DataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            run=False,
            save_config_callback=None,
            seed_everything_default=0,
            auto_configure_optimizers=False,
            trainer_class=Trainer,
            trainer_defaults={
                "max_epochs": 10,
                "devices": 1,  # Lightning's `auto` takes every GPU, which multiplies the batch
                "use_distributed_sampler": False,  # `Batches` distributes the items among processes
                "enable_model_summary": False,
            },
            parser_class=Parser,
            parser_kwargs={"prog": PROGRAM, "exit_on_error": False, "allow_abbrev": False},
            args=self.arguments.parsed,
        )

    def add_arguments_to_parser(self, parser: Parser) -> None:
        parser.add_argument("--extends", type=str | None, help="in a config: the config that it overrides")
        parser.add_argument("--init_from", type=str | None, help="released model or finished run to start from")
        minutes = "save last.ckpt within an epoch after so many minutes; 0: after epochs only"
        parser.add_argument("--every_minutes", type=float, default=10.0, help=minutes)
        steps = "save last.ckpt within an epoch after so many optimizer steps; 0: at no fixed number"
        parser.add_argument("--every_steps", type=int, default=0, help=steps)
        parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=int)

    def parse_arguments(self, parser: Parser, args: list[str]) -> None:
        try:
            super().parse_arguments(parser, args)
        except ArgumentError as error:
            file = wrong_config(parser, args, str(error))
            line = readable(str(error))
            print(f"{PROGRAM}: {file + ': ' if file else ''}{line}{suggestion(parser, line)}", file=sys.stderr)
            sys.exit(1 if file else 2)  # 1 for bad input in a file, 2 for wrong usage
        check_number("seed_everything", self.config.seed_everything, 0, MOST_SEED)
        check_objects(self.config, self.arguments.trust)

    def instantiate_classes(self) -> None:
        """Build the data first, because its labels set the size of the network's head, then model and trainer."""
        self.datamodule = self.instantiate(Namespace(data=self.config.data)).data
        self.__dict__.pop("config_dump", None)  # Lightning's copy of the config, which has the sizes only from here on
        fill_sizes(self.config, self.datamodule, self.arguments.trust)
        self.given_precision, self.precision_line = self.config.trainer.precision, fill_precision(self.config.trainer)
        others = self.config.clone()
        del others["data"]
        self.config_init = self.instantiate(others)
        self.config_init["data"] = self.datamodule
        self.model = self.config_init.model
        self.model.trust = self.arguments.trust
        self.trainer = self.instantiate_trainer()

    def instantiate(self, config: Namespace) -> Namespace:
        """Build the classes of a part of the config; their errors stay as short as they were raised."""
        with config_errors("config", all_errors=True):
            return self.parser.build(config)

    def instantiate_trainer(self, **kwargs: Any) -> lightning.Trainer:
        """Make the trainer. Its logs and checkpoints get their folder in `train`."""
        self.timer = Timer(interval="step", verbose=False)
        often = {name: self.config[name] for name in ("every_minutes", "every_steps")}
        saving = checkpoints(self.model.monitor, self.model.mode, **often)
        self.lock = RunLock()
        given = self.config_init.trainer
        self.run = OpenRun(self.open_folder, self.record_start, saving, given.logger)
        own = given.callbacks if isinstance(given.callbacks, list) else [given.callbacks]
        own_bar = any(isinstance(callback, ProgressBar) for callback in own)
        self.trainer_defaults["callbacks"] = [
            self.run,
            LearningRateMonitor(logging_interval="step"),
            self.timer,
            *([] if own_bar or given.enable_progress_bar is False else [Progress()]),
            *saving,
        ]
        with config_errors("trainer"):
            trainer = super().instantiate_trainer(logger=False, **kwargs)
        check_trainer(trainer, given.max_time)
        return trainer

    def train(self) -> None:
        """Train, from the last checkpoint if there is one, then evaluate once on the test set.

        Raises:
            InputError: If another process trains this run, its checkpoints are broken, or the disk is full.
        """
        try:
            with clear_ending(PROGRAM, self.resume_command):
                self.fit()
                self.finish()
            leave()
        finally:
            self.lock.release()

    def fit(self) -> None:
        """Train, from the last checkpoint if there is one."""
        given = self.arguments
        self.model.check_data(self.datamodule)
        if self.datamodule.pack is not None:
            self.datamodule.pack.check_arguments(run_folder.test_set(self.config.data.as_dict())["init_args"])
        saved = [name for name in (LAST, PREVIOUS) if given.resume and Path(given.resume, name).exists()]
        source = None if saved else self.config.init_from
        self.transfer = source and find_weights(source, self.model, self.datamodule, given.trust)
        if given.resume and self.trainer.is_global_zero:
            self.lock.acquire(Path(given.resume))  # before the data is read, which may take minutes
        elif given.run and not given.resume:
            run_folder.check_free(given.run)
        self.datamodule.prepare_data()
        self.datamodule.setup("fit")
        divide_steps(self.trainer, self.datamodule)
        check_sizes(self.config, self.model, self.datamodule)
        with config_errors("task, network, data and optimizer do not fit each other", all_errors=True):
            self.model.smoke_test(self.datamodule)
        if given.resume:
            run_folder.check_learned_from(given.resume, self.learned_from())
        checkpoint = Path(given.resume, LAST) if saved else None
        try:
            with trainer_errors(), one_message(self.trainer):
                self.trainer.fit(self.model, self.datamodule, ckpt_path=checkpoint, weights_only=True)
        except InputError:
            if self.run.folder and not given.resume and self.trainer.is_global_zero:
                run_folder.discard(self.run.folder)
            raise

    def resume_command(self) -> str:
        """The command that resumes this run; empty without a run."""
        trust = "".join(f" --trust {name}" for name in self.arguments.trust)
        return f"{PROGRAM} --resume {self.run.folder}{trust}" if self.run.folder else ""

    def open_folder(self) -> Path:
        """The folder of the run, which this process holds from here on."""
        if self.arguments.resume:
            return Path(self.arguments.resume)
        run, configs, origin = self.arguments.run, self.arguments.configs, self.origin() | self.learned_from()
        return run_folder.start(run, configs, self.resolved_config(), origin, self.lock)

    def resolved_config(self) -> str:
        """The config as YAML, with what follows from it as comments."""
        config = self.config.clone()
        for name in ("config", "extends", *([] if config.init_from else ["init_from"])):
            config.pop(name, None)
        resolved = yaml.safe_load(self.parser.dump(config, skip_none=False, skip_link_targets=True))
        network, _ = self.model.trained_model(self.model.network, resolved["model"])
        comments = "".join(f"# {name}: {value}\n" for name, value in getattr(network, "context_ms", {}).items())
        return comments + yaml.safe_dump(plain_settings(resolved), sort_keys=False, allow_unicode=True)

    def origin(self) -> dict[str, Any]:
        """Commit, hardware, versions and precision of this start."""
        return provenance(self.trainer.strategy.root_device, self.trainer.world_size, self.trainer.precision)

    def learned_from(self) -> dict[str, Any]:
        """The checksums of the weights that training starts from, and of the teachers'."""
        sources = {"starts_from_sha256": self.transfer, "teachers_sha256": getattr(self.model, "teachers", None)}
        return {key: source.sha256 for key, source in sources.items() if source}

    def record_start(self) -> None:
        """Write into the folder of the run what is trained, and print it."""
        folder, resumed, data = self.run.folder, self.arguments.resume, self.datamodule
        if resumed:
            run_folder.resume(folder, self.resolved_config(), self.origin())
        add_training_items(data.item_names().get("train", ()), folder, data.item_root)
        foreign = foreign_modules([self.config.data.as_dict(), self.config.model.as_dict()])
        if modules := sorted({*foreign, *self.arguments.trust}):
            trust = " ".join(f"--trust {name}" for name in modules)
            print(f"this model has code of your own: loading it later needs {trust} (in Python: trust={modules})")
        parameters = sum(parameter.numel() for parameter in self.model.network.parameters())
        print(f"{type(self.model.network).__name__}, {parameters:,} parameters -> {folder}")
        counts = f"{len(data.train):,} training and {len(data.validation):,} validation {data.items}"
        print("; ".join(filter(None, (counts, data.describe_batches()))))
        if self.precision_line and not resumed:
            print(self.precision_line)
        if self.transfer:
            keep(self.transfer, folder)
        if resumed:
            batches = f" and {done:,} batch{'es' * (done > 1)} of the next" if (done := self.run.batches_done) else ""
            print(f"resuming after {self.run.epochs_done} of {self.trainer.max_epochs} epochs{batches}")

    def finish(self) -> None:
        """Evaluate the final weights in fp32 on the test set, which the processes divide; the first one writes."""
        for callback in self.trainer.callbacks:
            if isinstance(callback, WeightAveraging):
                # Lightning does this at the end of training, but not if a resumed run has nothing left to train.
                callback.on_train_end(self.trainer, self.model)
        config = run_folder.model_config(self.run.folder)
        network, config = self.model.trained_model(self.final_network(), config)
        share_network(network := network.eval().float().to(self.trainer.strategy.root_device))
        progress = (bar := self.trainer.progress_bar_callback) is not None and getattr(bar, "is_enabled", True)
        report = self.model.evaluate(network, self.datamodule, progress=progress)
        if not self.trainer.is_global_zero:
            return
        minutes = self.timer.time_elapsed("train") / 60
        errors = run_folder.write_results(self.run.folder, network, config, self.datamodule, report, minutes)
        print(f"test set, final weights: {report.text}")
        print(f"model: {self.run.folder / 'model'}; figures: {self.run.folder / 'learning_curves.png'}, {errors}")

    def final_network(self) -> nn.Module:
        """The trained network; if processes have divided its weights, a new one, with all of them in each process."""
        network = self.model.network
        if not is_sharded(network):
            return network
        whole = self.instantiate(Namespace(model=self.config.model)).model.network
        whole.load_state_dict(whole_weights(network))
        return whole
