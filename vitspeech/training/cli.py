"""Training from the command line: from a config to a finished run, which can be interrupted and resumed at any time.

`run_folder.py` says what the folder of a run contains.
"""

import logging
import sys
import warnings
from argparse import ArgumentError
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning
import yaml
from jsonargparse import Namespace
from lightning.pytorch.callbacks import LearningRateMonitor, ProgressBar, Timer, WeightAveraging
from lightning.pytorch.cli import LightningCLI
from torch import nn

from vitspeech.checkpoint.items import add_training_items
from vitspeech.data.module import InMemoryData
from vitspeech.errors import InputError, check_seed
from vitspeech.provenance import provenance
from vitspeech.tasks import Task
from vitspeech.tasks.sharding import is_sharded, whole_weights
from vitspeech.training import run_folder
from vitspeech.training.arguments import foreign_modules, prepare, take_option
from vitspeech.training.checkpoints import LAST, PREVIOUS, checkpoints
from vitspeech.training.config_border import check_objects, check_trainer, config_errors, trainer_errors
from vitspeech.training.endings import clear_ending
from vitspeech.training.init_from import find_weights, keep
from vitspeech.training.lock import RunLock
from vitspeech.training.open_run import OpenRun
from vitspeech.training.parser import Parser, plain_settings, readable, restrict_imports, suggestion, wrong_config
from vitspeech.training.precision import fill_precision
from vitspeech.training.processes import after_restart, divide_steps, leave, one_message, share_network
from vitspeech.training.progress import Progress
from vitspeech.training.sizes import check_sizes, fill_sizes
from vitspeech.training.trainer import Trainer
from vitspeech.trust import import_modules

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
            InMemoryData,
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
        check_seed("seed_everything", self.config.seed_everything)
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
            self.model.try_out(self.datamodule)
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
