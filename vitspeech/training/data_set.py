"""The data set of a config, without the network and the trainer."""

import tempfile
from argparse import ArgumentError
from collections.abc import Sequence
from pathlib import Path

import yaml

from vitspeech.data.module import InMemoryData
from vitspeech.errors import InputError
from vitspeech.training.arguments import config_files, prepare, take_option
from vitspeech.training.config_border import check_objects, config_errors
from vitspeech.training.configs import read_config
from vitspeech.training.parser import Parser, readable, restrict_imports
from vitspeech.trust import import_modules


def build_data_set(config: str | Path, overrides: Sequence[str] = (), trust: Sequence[str] = ()) -> InMemoryData:
    """Build the data set of a config, as `vitspeech train` does.

    Args:
        config: A YAML file or the name of a shipped config. Only its part `data` is read.
        overrides: `--data.KEY=VALUE`, or further `--config=CONFIG`.
        trust: Modules of your own that the config names classes of.

    Raises:
        FileNotFoundError: If the config or the data does not exist.
        InputError: If the config names no data set, or one that cannot be built.
    """
    given = prepare([f"--config={config}", *overrides, *(f"--trust={name}" for name in trust)])
    restrict_imports(given.trust)
    import_modules(given.trust)
    parts = [{"data": part} for file in config_files(given.parsed) if (part := read_config(file).get("data"))]
    if not parts:
        raise InputError(f"{config}: names no data set; it needs `data` with a class_path")
    others = [text for text in take_option(given.parsed, "--config")[1] if not text.startswith("--init_from=")]
    for name in others:
        if name.startswith("--") and not name.startswith("--data"):
            raise InputError(f"{name.partition('=')[0]}: only --data.KEY changes a data set")
    parser = Parser(prog="vitspeech pack", exit_on_error=False, allow_abbrev=False)
    parser.add_subclass_arguments(InMemoryData, "data", required=True)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.yaml") for number in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            file.write_text(yaml.safe_dump(part, sort_keys=False))
        try:
            parsed = parser.parse_args([*(f"--config={file}" for file in files), *others])
        except ArgumentError as error:
            raise InputError(f"{config}: {readable(str(error))}") from None
    check_objects(parsed, given.trust)
    with config_errors("config", all_errors=True):
        return parser.build(parsed).data
