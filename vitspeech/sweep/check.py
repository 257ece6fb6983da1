"""What is checked before the first run of a sweep: every variant is parsed and built, every folder is of this sweep."""

import io
import re
from contextlib import redirect_stderr
from typing import Any

import yaml

from vitspeech.checkpoint.release import OF_AUTO, PRECISION, RUN_ONLY, differences, flattened
from vitspeech.errors import InputError
from vitspeech.files import read_yaml
from vitspeech.sweep.plan import Plan, Run
from vitspeech.training.run_folder import is_finished
from vitspeech.training.train import PROGRAM, TrainingCLI


def check_plan(plan: Plan) -> None:
    """Build every variant, and compare every run that exists with what the sweep would train.

    Runs that `vitspeech train` was started for by hand are part of the sweep if their configs are the same.

    Raises:
        InputError: If a variant cannot be parsed or built, or a folder holds a run of another config or seed.
        OSError: If a file cannot be read.
    """
    configs: dict[str, dict[str, Any]] = {}
    for run in plan.runs:
        if run.variant.name not in configs:
            configs[run.variant.name] = resolve(plan.options(run), run.variant.name)
        check_run(run, configs[run.variant.name] | {"seed_everything": run.seed}, plan)


def resolve(options: list[str], name: str) -> dict[str, Any]:
    """The resolved config of a command line of `vitspeech train`, by dotted keys; nothing is trained.

    The precision `auto` is not replaced, because a run on other hardware may have another one.

    Args:
        options: The command line.
        name: What it is called in messages.

    Raises:
        InputError: If it is wrong.
        OSError: If a file cannot be read.
    """
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            cli = TrainingCLI(options)
            config = dict(flattened(yaml.safe_load(cli.resolved_config())))
            return config | {PRECISION: cli.given_precision}
    except SystemExit:  # the parser has printed what is wrong
        reason = printed.getvalue().strip().removeprefix(f"{PROGRAM}: ")
        raise InputError(f"{name}: {reason}") from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def check_run(run: Run, expected: dict[str, Any], plan: Plan) -> None:
    """Refuse a folder that holds a run of another config or seed.

    A config of an earlier version lacks the keys that were added since. It is parsed again to get their defaults.

    Args:
        run: The run.
        expected: Its resolved config by dotted keys.
        plan: The sweep.

    Raises:
        InputError: If it does, or a finished run has no config.
    """
    file = run.folder / "config.yaml"
    if not file.is_file():
        if is_finished(run.folder):
            raise InputError(f"{run.folder}: holds a model, but no config.yaml, so it is not a run; remove it")
        return
    found = read_yaml(file)
    if not isinstance(found, dict):
        raise InputError(f"{file}: is not the config of a run")
    if difference(dict(flattened(found)), expected) is None:
        return
    trust = [f"--trust={name}" for name in plan.trust]
    parsed = resolve([f"--config={file}", *trust], str(run.folder))
    if (different := difference(parsed, expected)) is not None:
        key, (there, here) = different
        raise InputError(
            f"{run.folder}: holds a run with {key} {there}, but this sweep has {here}; name another folder with -o, or "
            "remove the run"
        )


def difference(one: dict[str, Any], other: dict[str, Any]) -> tuple[str, tuple[str, str]] | None:
    """The first key that changes what is learned and differs, with both values; `None` if there is none.

    The precision `auto` of the other config is the same as each that it may become.
    """
    if other.get(PRECISION) == "auto" and one.get(PRECISION) in OF_AUTO:
        other = other | {PRECISION: one[PRECISION]}
    recipes = [
        {key: value for key, value in config.items() if key == "seed_everything" or not RUN_ONLY.search(key)}
        for config in (one, other)
    ]
    return next(differences(*recipes), None)


def where_to_run(options: list[str]) -> list[str]:
    """The options that a resumed run may take anew: those that do not change what is learned, such as the data's root.

    All others are in its config.
    """
    keys = {option: re.sub(r"^--|=.*", "", option) for option in options}
    return [option for option in options if RUN_ONLY.search(keys[option]) and "seed" not in keys[option]]
