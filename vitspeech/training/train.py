"""`vitspeech train`: from a config to a finished run, which can be interrupted and resumed at any time.

The order of things is that of this file: command line and configs; the data, the task with its network, the trainer;
a few items are tried out; the run gets its folder; the network is trained, from the last checkpoint if there is one;
the final weights are tested once. A network that does not fit the data is refused before there is a folder.

`run_folder.py` says what the folder of a run contains, `config.py` what a config may contain.
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning
import torch
import yaml
from jsonargparse import ActionConfigFile, Namespace
from lightning.pytorch.callbacks import LearningRateMonitor, ProgressBar, Timer, WeightAveraging
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn

from vitspeech.checkpoint import load
from vitspeech.checkpoint.card import check_labels
from vitspeech.checkpoint.leakage import add_lines, add_training_items, training_items
from vitspeech.checkpoint.transfer import Transfer, transfer
from vitspeech.data.module import DataModule, read_labels
from vitspeech.errors import MOST_SEED, InputError, check_number
from vitspeech.files import read_yaml, write_json
from vitspeech.provenance import provenance
from vitspeech.tasks import Task, find_task
from vitspeech.tasks.sharding import is_sharded, whole_weights
from vitspeech.training import run_folder
from vitspeech.training.callbacks import Progress, RunCallback
from vitspeech.training.checkpoints import LAST, PREVIOUS, checkpoints
from vitspeech.training.config import (
    PROGRAM,
    Parser,
    after_restart,
    config_errors,
    foreign_modules,
    places_outside,
    plain_settings,
    read_arguments,
    restrict_imports,
    split_options,
)
from vitspeech.training.interrupts import RunLock, handle_interrupts
from vitspeech.training.run_folder import INIT_FROM
from vitspeech.training.trainer import Trainer, check_trainer, end_processes, fill_precision, share_network
from vitspeech.trust import import_modules

DEFAULTS = {
    "trainer.max_epochs": 10,
    "trainer.devices": 1,  # Lightning's `auto` takes every GPU, which multiplies the batch
    "trainer.use_distributed_sampler": False,  # `Batches` distributes the items among processes
    "trainer.enable_model_summary": False,
}
QUIET = (
    ".*does not have many workers",
    "Checkpoint directory .* exists and is not empty",
    "The number of training batches .* is smaller than the logging interval",
    ".*treespec, LeafSpec",
    "You're using the WeightAveraging callback with a model that overrides the configure_model",  # for FSDP2 only
    "You're resuming from a checkpoint that ended before the epoch ended",  # `Batches` begins where it ended
    r"Found \d+ module\(s\) in eval mode at the start of training",  # the frozen ones of `Spotting`
)


def train(arguments: Sequence[str]) -> None:
    """Train from the command line. A finished run is reported and not changed.

    Args:
        arguments: The command line without the program's name.
    """
    arguments = after_restart(arguments)
    given, others = split_options(arguments)
    if given.resume and run_folder.is_finished(given.resume):
        run_folder.resumed_config(given.resume)
        ignored = f", and {' '.join(others)} has no effect" if others else ""
        print(f"{given.resume} is finished; there is nothing to resume{ignored}")
        return
    TrainingCLI(arguments).train()


class TrainingCLI:
    """The data, task and trainer that a command line describes, and the run that is made of them.

    A config has three parts: `data`, `model` and `trainer`. Configs and overrides apply in their order.

    Args:
        arguments: The command line without the program's name.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.WARNING)
        for message in QUIET:
            warnings.filterwarnings("ignore", message=message)
        self.arguments = read_arguments(arguments)
        import_modules(self.arguments.trust)
        restrict_imports(self.arguments.trust)
        self.parser = make_parser()
        self.config = self.parser.parse(self.arguments.parsed, self.arguments.trust)
        check_number("seed_everything", self.config.seed_everything, 0, MOST_SEED)
        lightning.seed_everything(self.config.seed_everything, workers=True)
        self.datamodule: DataModule = self.build("data")
        fill_sizes(self.config, self.datamodule, self.arguments.trust)
        self.model: Task = self.build("model")
        self.model.trust = self.arguments.trust
        self.given_precision, self.precision_line = self.config.trainer.precision, fill_precision(self.config.trainer)
        self.trainer = self.make_trainer()

    def build(self, part: str) -> Any:
        """Build the classes of a part of the config."""
        with config_errors("config"):
            return self.parser.build(Namespace({part: self.config[part]}))[part]

    def make_trainer(self) -> Trainer:
        """Make the trainer. Its logs and checkpoints get their folder when the run is opened."""
        self.lock, self.timer = RunLock(), Timer(interval="step", verbose=False)
        often = {name: self.config[name] for name in ("every_minutes", "every_steps")}
        saving = checkpoints(self.model.monitor, self.model.mode, **often)
        given = self.build("trainer")
        self.run = RunCallback(self.open_folder, self.record_start, saving, given.logger)
        own = given.callbacks if isinstance(given.callbacks, list) else [given.callbacks] if given.callbacks else []
        no_bar = given.enable_progress_bar is False or any(isinstance(callback, ProgressBar) for callback in own)
        bars = [] if no_bar else [Progress()]
        callbacks = [*own, self.run, LearningRateMonitor(logging_interval="step"), self.timer, *bars, *saving]
        with config_errors("trainer"):
            trainer = Trainer(**{**given, "logger": False, "callbacks": callbacks})
        check_trainer(trainer, self.config.trainer)
        return trainer

    def train(self) -> None:
        """Train, from the last checkpoint if there is one, then evaluate once on the test set."""
        try:
            with handle_interrupts(PROGRAM, self.resume_command):
                self.fit()
                self.test()
            end_processes()
        finally:
            self.lock.release()

    def fit(self) -> None:
        """Read the data, try out a few items, open the folder of the run, and train."""
        given, data = self.arguments, self.datamodule
        self.model.check_data(data)
        if given.resume and any(Path(given.resume, name).exists() for name in (LAST, PREVIOUS)):
            self.run.checkpoint = Path(given.resume, LAST)
        source = None if self.run.checkpoint else self.config.init_from
        self.transfer = source and self.find_weights(source)
        if getattr(self.model, "frozen", ()) and not self.config.init_from:
            raise InputError(
                "frozen_blocks: without init_from, random weights would stay; set it to 0, or give a start"
            )
        if given.resume and self.trainer.is_global_zero:
            self.lock.acquire(Path(given.resume))  # before the data is read, which may take minutes
        elif given.run and not given.resume:
            run_folder.check_free(given.run)
        data.prepare_data()
        data.setup("fit")
        data.accumulate = self.trainer.accumulate_grad_batches
        data.training_batches(self.trainer.world_size)  # refuses processes that cannot divide them evenly
        check_labels(list(data.labels))
        check_sample_rate(self.model.network, data)
        with config_errors("task, network, data and optimizer do not fit each other"):
            self.model.smoke_test(data)
        if given.resume:
            run_folder.check_learned_from(given.resume, self.learned_from())
        try:
            with training_errors(self.run, self.trainer):
                self.trainer.fit(self.model, data, ckpt_path=self.run.checkpoint, weights_only=True)
        except InputError:
            if self.run.folder and not given.resume and self.trainer.is_global_zero:
                run_folder.discard(self.run.folder)
            raise

    def find_weights(self, folder: str) -> Transfer:
        """Read the weights of `--init_from`. The network gets them when training begins, once it is initialized."""
        data, least = self.datamodule, self.config.init_from_least
        model = load(folder, trust=self.arguments.trust)
        found = transfer(model, self.model.network, list(data.labels), data.preprocessing, least=least)
        self.model.starting_weights = found.weights
        return found

    def open_folder(self) -> Path:
        """The folder of the run, which this process holds from here on; `RunCallback` calls this."""
        if self.arguments.resume:
            return Path(self.arguments.resume)
        run, configs, origin = self.arguments.run, self.arguments.configs, self.origin() | self.learned_from()
        return run_folder.start(run, configs, self.resolved_config(), origin, self.lock)

    def record_start(self) -> None:
        """Write into the folder of the run what is trained, and print it; `RunCallback` calls this."""
        folder, resumed, data = self.run.folder, self.arguments.resume, self.datamodule
        if resumed:
            run_folder.resume(folder, self.resolved_config(), self.origin())
        add_training_items(data.item_names().get("train", ()), folder, data.item_root)
        foreign = foreign_modules([self.config.data, self.config.model])
        if modules := sorted(foreign | {*self.arguments.trust}):
            trust = " ".join(f"--trust {name}" for name in modules)
            print(f"this model has code of your own: loading it later needs {trust} (in Python: trust={modules})")
        for place in places_outside(self.config.trainer, folder):
            print(f"{place} is outside of the run's folder, and is written to")
        parameters = sum(parameter.numel() for parameter in self.model.network.parameters())
        print(f"{type(self.model.network).__name__}, {parameters:,} parameters -> {folder}")
        counts = f"{len(data.train):,} training and {len(data.validation):,} validation {data.items}"
        print("; ".join(filter(None, (counts, data.describe_batches()))))
        if self.precision_line and not resumed:
            print(self.precision_line)
        if self.transfer:
            print(self.transfer.report())
            add_lines(training_items(Path(self.transfer.source)), folder)  # of what that model was trained on
            write_json(self.transfer.record(), folder / INIT_FROM)
        if resumed:
            batches = f" and {done:,} batch{'es' * (done > 1)} of the next" if (done := self.run.batches_done) else ""
            print(f"resuming after {self.run.epochs_done} of {self.trainer.max_epochs} epochs{batches}")

    def test(self) -> None:
        """Evaluate the final weights in fp32 on the test set, which the processes divide; the first one writes."""
        for callback in self.trainer.callbacks:
            if isinstance(callback, WeightAveraging):
                # Lightning does this at the end of training, but not if a resumed run has nothing left to train.
                callback.on_train_end(self.trainer, self.model)
        config = read_yaml(self.run.folder / run_folder.CONFIG)["model"]
        network, config = self.model.trained_model(self.final_network(), config)
        share_network(network := network.eval().float().to(self.trainer.strategy.root_device))
        progress = (bar := self.trainer.progress_bar_callback) is not None and getattr(bar, "is_enabled", True)
        report = self.model.evaluate(network, self.datamodule, progress=progress)
        if not self.trainer.is_global_zero:
            return
        minutes = self.timer.time_elapsed("train") / 60
        errors = run_folder.write_results(self.run.folder, network, config, self.datamodule, report, minutes)
        print(f"test set, final weights: {report.text}")
        for line in self.model.remarks(self.run.folder / "model", self.datamodule):
            print(line)
        print(f"model: {self.run.folder / 'model'}; figures: {self.run.folder / 'learning_curves.png'}, {errors}")

    def final_network(self) -> nn.Module:
        """The trained network; if processes have divided its weights, a new one, with all of them in each process."""
        network = self.model.network
        if not is_sharded(network):
            return network
        whole = self.build("model").network
        whole.load_state_dict(whole_weights(network))
        return whole

    def resolved_config(self) -> str:
        """The config as YAML, with what follows from it as comments."""
        config = self.config.clone()
        for name in ("config", "extends", *([] if config.init_from else ["init_from", "init_from_least"])):
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

    def resume_command(self) -> str:
        """The command that resumes this run; empty without a run."""
        trust = "".join(f" --trust {name}" for name in self.arguments.trust)
        return f"{PROGRAM} --resume {self.run.folder}{trust}" if self.run.folder else ""


def make_parser() -> Parser:
    """The parser of a config: its keys are arguments of constructors."""
    parser = Parser(prog=PROGRAM, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("-c", "--config", action=ActionConfigFile, help="a config; later ones override earlier ones")
    parser.add_argument("--seed_everything", type=int, default=0, help="seed of everything random")
    parser.add_lightning_class_args(Trainer, "trainer")
    parser.set_defaults(DEFAULTS)
    parser.add_lightning_class_args(Task, "model", subclass_mode=True)
    parser.add_lightning_class_args(DataModule, "data", subclass_mode=True)
    parser.add_argument("--extends", type=str | None, help="in a config: the config that it overrides")
    parser.add_argument("--init_from", type=str | None, help="released model or finished run to start from")
    least = "the least share of parameters that --init_from must load"
    parser.add_argument("--init_from_least", type=float, default=0.1, help=least)
    minutes = "save last.ckpt within an epoch after so many minutes; 0: after epochs only"
    parser.add_argument("--every_minutes", type=float, default=10.0, help=minutes)
    steps = "save last.ckpt within an epoch after so many optimizer steps; 0: at no fixed number"
    parser.add_argument("--every_steps", type=int, default=0, help=steps)
    parser.link_arguments("seed_everything", "data.init_args.seed")
    return parser


def fill_sizes(config: Namespace, data: DataModule, trust: Sequence[str]) -> None:
    """Set `classes`, `units`, `image` and `symbols` of the network in a config where they are left out."""
    network = config.model.init_args.get("network")
    sizes = getattr(network, "init_args", None) or {}
    missing = [name for name in ("classes", "units", "image", "symbols") if name in sizes and not sizes[name]]
    if missing:
        known = find_task(config.model.class_path, trust).network_sizes(read_labels(data))
        preprocessing = data.preprocessing
        known |= {"image": preprocessing.get("image"), "symbols": len(preprocessing.get("symbols", ()))}
        for name in known.keys() & set(missing):
            sizes[name] = known[name]
    own = sizes.get("image") if network and network.class_path.startswith("vitspeech.") else None
    if own and own != (side := data.preprocessing.get("image", own)):
        text = f"model.network.image={own}, but the images of the data have {side} pixels"
        raise InputError(f"{text}; leave it out: it follows from the data")


def check_sample_rate(network: nn.Module, data: DataModule) -> None:
    """Refuse a log-mel spectrogram at another sample rate than the data, which training would not notice."""
    own_hz = getattr(getattr(getattr(network, "tokens", None), "log_mel", None), "sample_rate_hz", None)
    rate_hz = data.preprocessing.get("sample_rate_hz")
    if own_hz is not None and rate_hz is not None and own_hz != rate_hz:
        raise InputError(
            f"the network takes speech at {own_hz:,} Hz, the data is at {rate_hz:,} Hz: give its tokens "
            f"sample_rate_hz={rate_hz}"
        )


@contextmanager
def training_errors(run: RunCallback, trainer: Trainer) -> Iterator[None]:
    """Turn errors of a run into an `InputError` of one line where they are about its config, checkpoint or machine.

    These are all errors before training begins, such as those of a checkpoint of another network, and at any time those
    of Lightning about its options, those about memory, and that a callback monitors a metric that is not logged. A loss
    that is not finite ends all processes; only the first one reports it.
    """
    try:
        yield
    except FloatingPointError:
        end_processes()
        if trainer.is_global_zero:
            raise
        sys.exit(1)
    except (InputError, OSError, Warning):
        raise
    except Exception as error:
        if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
            raise InputError(f"out of memory: {error}; take a smaller data.batch or network") from error
        if run.checkpoint and not run.is_training:
            reason = " ".join(str(error).splitlines()[:2])  # of torch's list of tensors that do not fit, the first one
            raise InputError(f"{run.checkpoint}: cannot be resumed: {reason}") from error
        monitors = [getattr(callback, "monitor", None) for callback in trainer.callbacks]
        unknown = [f"`{name}`" for name in monitors if name and name not in trainer.callback_metrics]
        is_monitor = isinstance(error, RuntimeError) and any(name in str(error) for name in unknown)
        if run.is_training and not is_monitor and not isinstance(error, MisconfigurationException):
            raise
        raise InputError(f"trainer: {error}") from error
