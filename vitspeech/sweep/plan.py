"""The plan of a sweep: its variants (a config with varied values), their folders, and the command of each run.

Before the first run every variant is parsed and built, and every folder compared with what the sweep would train.
"""

import hashlib
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from vitspeech.checkpoint.model import read_mapping
from vitspeech.checkpoint.multi_seed import OF_AUTO, PRECISION, RUN_ONLY, differences, flattened
from vitspeech.errors import MOST_SEED, InputError, check_number
from vitspeech.files import check_links
from vitspeech.training.config import PROGRAM, config_folder, find_config
from vitspeech.training.run_folder import check_free, check_run_links
from vitspeech.training.train import TrainingCLI

LONGEST_NAME = 80  # characters of a config's name or a value in the name of a folder


@dataclass(frozen=True)
class Variant:
    """One config with one combination of varied values."""

    name: str  # of its folder: `full`, or `full,left=16` with a varied value
    config: str  # as the command line names it
    varied: Mapping[str, str] = field(default_factory=dict)  # keys and values, as text


@dataclass(frozen=True)
class Run:
    """One variant with one seed, in the folder `FOLDER/VARIANT/seed-N`."""

    variant: Variant
    seed: int
    folder: Path

    def __str__(self) -> str:
        return f"{self.variant.name}, seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Every variant with every seed."""

    folder: Path
    variants: tuple[Variant, ...]  # in the order of the table; the others are compared with the first
    seeds: tuple[int, ...]  # all different
    overrides: tuple[str, ...] = ()  # options of `vitspeech train` for every run, as `--KEY=VALUE`
    trust: tuple[str, ...] = ()  # modules of the user's own

    @property
    def runs(self) -> list[Run]:
        """All runs, seed by seed, so that an interrupted sweep has every variant."""
        return [
            Run(variant, seed, self.folder / variant.name / f"seed-{seed}")
            for seed in self.seeds
            for variant in self.variants
        ]

    def options(self, run: Run) -> list[str]:
        """The options of `vitspeech train` that describe a run, without `--run`."""
        varied = [f"--{key}={value}" for key, value in run.variant.varied.items()]
        trust = [f"--trust={name}" for name in self.trust]
        return [f"--config={run.variant.config}", *self.overrides, *varied, f"--seed_everything={run.seed}", *trust]


def make_plan(
    configs: Sequence[str],
    seeds: Sequence[int],
    folder: str | Path,
    variations: Sequence[tuple[str, Sequence[str]]] = (),
    *,
    overrides: Sequence[str] = (),
    trust: Sequence[str] = (),
) -> Plan:
    """Plan every config with every combination of varied values and every seed."""
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds {' '.join(map(str, seeds))}: name different seeds")
    for seed in seeds:
        check_number("--seeds", seed, 0, MOST_SEED)
    keys = [key for key, _ in variations]
    if len(set(keys)) < len(keys):
        raise InputError(f"--vary {' '.join(keys)}: a key is there twice; write all its values in one")
    for option in overrides:
        if (key := option[2:].partition("=")[0]) in keys:
            raise InputError(f"--{key}: is varied; leave one of both out")
    names, short = config_names(configs), distinct_ends([key.split(".") for key in keys], ".")
    variants = []
    for name, config in zip(names, configs, strict=True):
        for values in itertools.product(*(values for _, values in variations)):
            parts = [f"{key}={safe(value)}" for key, value in zip(short, values, strict=True)]
            varied = dict(zip(keys, values, strict=True))
            variants.append(Variant(",".join([name, *parts]), str(config), varied))
    for folder_name, count in Counter(variant.name for variant in variants).items():
        if count > 1:
            raise InputError(f"{folder_name}: would be the folder of {count} variants; change a value's spelling")
    return Plan(Path(folder), tuple(variants), tuple(seeds), tuple(overrides), tuple(trust))


def check_plan(plan: Plan) -> None:
    """Build every variant, and compare every run that exists with what the sweep would train.

    Runs that `vitspeech train` was started for by hand are part of the sweep if their configs are the same.
    """
    configs: dict[str, dict[str, Any]] = {}
    for run in plan.runs:
        name, file = run.variant.name, run.folder / "config.yaml"
        if name not in configs:
            configs[name] = resolve(plan.options(run), name)
        check_links(plan.folder, [f"{run.folder.relative_to(plan.folder)}.log"])
        if file.is_file():
            check_run_links(run.folder)
            found = dict(flattened(read_mapping(file, ("data", "model", "trainer"))))
            for key, (there, here) in different(found, configs[name] | {"seed_everything": run.seed}):
                raise InputError(
                    f"{run.folder}: holds a run with {key} {there}, but this sweep has {here}; name another folder "
                    "with -o, or remove the run"
                )
        else:
            check_free(run.folder)


def resolve(options: list[str], name: str) -> dict[str, Any]:
    """The resolved config of a command line of `vitspeech train`, by dotted keys; nothing is trained.

    The precision `auto` is not replaced, because a run on other hardware may have another one.

    Messages call the command line `name`.
    """
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            cli = TrainingCLI(options)
            return dict(flattened(yaml.safe_load(cli.resolved_config()))) | {PRECISION: cli.given_precision}
    except SystemExit:  # the parser has printed what is wrong
        reason = printed.getvalue().strip().removeprefix(f"{PROGRAM}: ")
        raise InputError(f"{name}: {reason}") from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def different(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the keys that change what is learned and differ, with both values.

    The precision `auto` of the other config is the same as each that it may become.
    """
    if other.get(PRECISION) == "auto" and one.get(PRECISION) in OF_AUTO:
        other = other | {PRECISION: one[PRECISION]}
    recipes = [
        {key: value for key, value in config.items() if key == "seed_everything" or not RUN_ONLY.search(key)}
        for config in (one, other)
    ]
    return differences(*recipes)


def config_names(configs: Sequence[str]) -> list[str]:
    """A name for each config: `full` of `encoders/full`, and `encoders-full` if there is another `full`."""
    files = [find_config(config).resolve() for config in configs]
    for file, config in zip(files, configs, strict=True):
        if files.count(file) > 1:
            raise InputError(f"{config}: the config is there twice")
    names = distinct_ends([file.with_suffix("").parts for file in files], "-")
    return [safe(name) for name in names]


def distinct_ends(paths: Sequence[Sequence[str]], separator: str) -> list[str]:
    """The last part of each path; where several paths have the same one, as many parts as tell them apart."""
    ends = []
    for path in paths:
        same = [other for other in paths if other[-1] == path[-1]]
        count = next(
            (count for count in range(1, len(path)) if len({tuple(other[-count:]) for other in same}) == len(same)),
            len(path),
        )
        ends.append(separator.join(path[-count:]))
    return ends


def safe(text: str) -> str:
    """A text as a part of a folder's name: `[yes, no]` -> `yes-no`; a long one is cut and gets a checksum."""
    name = re.sub(r"[^\w.+-]+", "-", text).strip("-.") if re.search(r"[^\w.+-]", text) else text
    name = name or "value"
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return name


def shipped_name(config: str) -> str:
    """The name of a config without a folder of this machine: `encoders/full`, or the name of the user's file."""
    file = find_config(config).resolve()
    if file.is_relative_to(config_folder().resolve()):
        return file.relative_to(config_folder().resolve()).with_suffix("").as_posix()
    return file.name
