"""Measure a model on the data set and split that its card names; on the same files, this reproduces the card's number.

A test set with items that the model was trained on is refused.

vitspeech evaluate checkpoints/cnn-cifar10 --data ROOT
vitspeech evaluate checkpoints/spoken-words-attention --ctc-weight 0      # the decoder without CTC
vitspeech evaluate checkpoints/cnn-cifar10 --data ROOT --out answers.csv
vitspeech evaluate runs/mine/0 --split validation --language-model mine.arpa --language-weight 0.3
vitspeech evaluate checkpoints/spoken-words-ctc --report errors           # as at the end of training
vitspeech evaluate checkpoints/librispeech-5h-ctc --data ROOT --test test-clean
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vitspeech
from vitspeech import command_line
from vitspeech.errors import InputError


def main(arguments: Sequence[str]) -> None:
    """Run `vitspeech evaluate`; if no terminal shows it, the last line printed is the main metric and its value."""
    options = parse(arguments)

    from vitspeech.data.tables import write_table
    from vitspeech.inference.decode import check_search
    from vitspeech.tasks import find_task

    device = command_line.find_device(options.device)
    model = vitspeech.load(options.checkpoint, trust=options.trust).to(device)
    given, language = command_line.settings(options, "beam", "ctc_weight"), command_line.language_settings(options)
    search = vitspeech.Search(**search_on_card(model.card, language) | given | language)
    task = find_task(model.task, model.trust)
    if (unused := [*given, *language]) and not task.transcribes:
        raise InputError(f"--{unused[0].replace('_', '-')}: is for models that transcribe")
    check_search(model, search, given)
    data = data_of(model, options)
    report = task.evaluate(model.network, data, search=search)
    if options.out is not None:
        if report.table is None:
            raise InputError(f"--out {options.out}: the reports of {model.task} have no rows of single items")
        items = report.table()
        write_table(options.out, items.columns, items.rows)
        print(options.out)
    if options.report is not None:
        options.report.mkdir(parents=True, exist_ok=True)
        print(report.write(options.report))
    name, value = report.headline
    on_card = model.card.get("metrics", {}).get(name)
    on_card = f"{on_card:.4f}" if isinstance(on_card, int | float) else repr(on_card)
    other = options.split != "test" or options.test
    print(f"{report.text}; the card says {on_card}" + " of its test set" * bool(other))
    if not sys.stdout.isatty():
        print(f"{name} {value:.4f}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, checked."""
    parser = command_line.parser("evaluate", __doc__)
    add = parser.add_argument
    add("checkpoint", help="folder of a released model or a finished run")
    add("--data", metavar="ROOT", help="folder of the data set; default: VITSPEECH_DATA, else data")
    add("--beam", type=int, help="beam width for transcripts, 1 is greedy; default: as on the card")
    add("--ctc-weight", type=float, help="weight of CTC in a decoder's search; default: as on the card")
    add("--out", type=Path, metavar="FILE", help="write a row for each test item as well, .csv or .parquet")
    add("--test", nargs="+", metavar="SUBSET", help="other subsets of LibriSpeech to test on, such as test-clean")
    add("--split", choices=("test", "validation"), default="test", help="the split to measure (default test)")
    command_line.add_language_model(parser)
    add("--report", type=Path, metavar="FOLDER", help="write the report about errors, as at the end of training")
    command_line.add_device(parser)
    options = parser.parse_args(arguments)
    command_line.check_file(options.out, "--out", command_line.TABLES)
    command_line.language_settings(options)
    if options.report is not None:
        command_line.check_folder(options.report, "--report")
    if options.test and options.split != "test":
        raise InputError("--test: is for --split test")
    return options


def data_of(model: "vitspeech.Model", options: argparse.Namespace) -> "vitspeech.DataModule":
    """The data of a card with the test set to measure, on which the model was not trained."""
    from vitspeech.checkpoint.card_dataset import card_dataset
    from vitspeech.checkpoint.hub import on_hub
    from vitspeech.checkpoint.leakage import check_test_items

    if options.test and not model.card.get("data", {}).get("class_path", "").endswith(".LibriSpeech"):
        raise InputError("--test is for models of LibriSpeech")
    data = card_dataset(model, options.data, {"test": options.test, "test_speakers": []} if options.test else None)
    if options.split == "test":
        card = model.card | {"splits": {}} if options.test else model.card  # another test set than the card's
        folder = model.folder if on_hub(options.checkpoint) else Path(options.checkpoint)
        check_test_items(data.item_names(), card, folder, data.item_root)
    elif hasattr(data, "test_sets") and hasattr(data, "transcripts"):
        validation = data.read("validation")
        data.test_sets = lambda: {"validation": validation}  # of what transcribes; other tasks read one loader
        data.test_dataloader = lambda: data.evaluation_loader(validation)
    else:
        raise InputError(f"--split validation is for data with transcripts, not for {type(data).__name__}")
    return data


def search_on_card(card: Mapping[str, Any], language: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `vitspeech.Search` on a card; with a language model without the beam of a greedy search."""
    search = dict(card.get("metrics", {}).get("search", {}))
    if language and search.get("beam") == 1:
        del search["beam"]
    return search
