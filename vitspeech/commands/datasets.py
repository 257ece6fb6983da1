"""`vitspeech pack` and `vitspeech language-model`: what is made from the data of a config."""

import argparse
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from vitspeech import command_line
from vitspeech.errors import InputError, check_number

if TYPE_CHECKING:
    from vitspeech.data import UtteranceData
    from vitspeech.training.train import TrainingCLI

PACK = """Write a data set as one of Hugging Face's: large files that are read in place, for data larger than memory.

vitspeech pack speech_commands/truncated /fast/commands --data.root /slow

The last line printed is the command that trains on it.

The first argument is a config, of which only `data` matters; --data.KEY VALUE overrides a key. Items that cannot be
read are left out up to the share --data.broken, and listed in FOLDER/left_out.txt. After an interruption, start over.
"""
LANGUAGE_MODEL = """Estimate an n-gram language model from the training transcripts of a config, as an ARPA file.

vitspeech language-model spoken_words/sequences words.arpa
vitspeech language-model mine.yaml words.arpa --words                 # of words, also for characters or pieces
vitspeech language-model mine.yaml more.arpa --text novels.txt        # of other text
vitspeech language-model spoken_words/sequences characters.arpa --data.units characters

The tokens are the units of the config's data, of which --data.KEY VALUE overrides a key. Validation and test
transcripts are never counted. The smoothing is interpolated modified Kneser-Ney (Chen and Goodman 1998). Use the file
with `transcribe`, `stream` and `evaluate`, by --language-model; docs/language-models.md says how to choose the weights.
"""
SHARD_MB = 256
SAME = ("image", "mean", "std", "seconds", "units")  # what is to be read as before
ORDERS = {"characters": 6, "pieces": 4, "words": 3}  # 6 was the best of 3, 6, 8 and 10 for 5 h of LibriSpeech


def pack(arguments: Sequence[str]) -> None:
    """Run `vitspeech pack`: prints what was written, and how to train on it."""
    parser = command_line.parser("pack", PACK, usage="%(prog)s CONFIG FOLDER [options]")
    add = parser.add_argument
    add("config", metavar="CONFIG", help="name or file of a config, as for vitspeech train")
    add("folder", type=Path, metavar="FOLDER", help="folder to write, which is not there yet")
    add("--shard-mb", type=float, default=SHARD_MB, help=f"size of a file in MB (default {SHARD_MB})")
    add("--workers", type=int, default=4, help="threads that read items (default 4)")
    options, overrides = parse(parser, arguments)
    if options.workers < 1 or not options.shard_mb > 0:
        parser.error("--workers and --shard-mb must be above 0")
    command_line.check_folder(options.folder, "FOLDER")

    from vitspeech.data.module import FILES, MEMORY
    from vitspeech.data.pack import CLASSES, pack

    data = training(options, overrides).datamodule
    if data.storage == MEMORY and FILES in data.storages:
        data.storage, data.checks_files = FILES, False  # each is read once, item by item
    counts = pack(data, options.folder, shard_mb=options.shard_mb, workers=options.workers)
    size = sum(file.stat().st_size for file in options.folder.rglob("*"))
    text = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    print(f"{options.folder}: {text} {data.items}, {size / 2**20:,.0f} MiB")
    given = {name: value for name, value in data.preprocessing.items() if name in SAME}
    given |= {"makes_silence": True} if getattr(data, "makes_silence", False) else {}
    same = "".join(f" --data.{name}={json.dumps(value, separators=(',', ':'))}" for name, value in given.items())
    same = same.replace('"', "")  # no name has spaces
    place = f"--data=vitspeech.{CLASSES[data.items]} --data.path={quote(str(options.folder))} --data.storage=files"
    print(f"to train on it: vitspeech train --config={quote(str(options.config))} {place}{same}")


def language_model(arguments: Sequence[str]) -> None:
    """Run `vitspeech language-model`: prints the sizes of the model and its perplexity on the validation split."""
    parser = command_line.parser("language-model", LANGUAGE_MODEL, usage="%(prog)s CONFIG OUT.arpa [options]")
    add = parser.add_argument
    add("config", metavar="CONFIG", help="name or file of a config, as for vitspeech train")
    add("out", type=Path, metavar="OUT.arpa", help="the ARPA file to write")
    order = f"tokens of the longest n-grams (default {', '.join(f'{n} for {kind}' for kind, n in ORDERS.items())})"
    add("--order", type=int, metavar="N", help=order)
    add("--words", action="store_true", help="count words, whatever the units of the data are")
    add("--text", type=Path, metavar="FILE", help="count the lines of this file (UTF-8), written as transcripts are")
    options, overrides = parse(parser, arguments)
    inputs = [options.config, *([options.text] if options.text else [])]
    command_line.check_file(options.out, "OUT.arpa", inputs=inputs)

    from vitspeech.data import UtteranceData
    from vitspeech.decoding.language.ngrams import MOST_ORDER

    if options.order is not None:
        check_number("order", options.order, 1, MOST_ORDER)
    data = training(options, overrides).datamodule
    if not isinstance(data, UtteranceData):
        raise InputError(f"{type(data).__name__} has no transcripts: a language model is for recognizers of utterances")
    data.prepare_data()
    if options.text is None:
        source, transcripts = "training transcripts", data.transcripts("train")
        rows = [(f"training transcript {number}", words) for number, words in enumerate(transcripts, 1)]
    else:
        source, rows = f"lines of {options.text.name}", list(read_lines(options.text, data.words_of))
    estimate_and_write(data, rows, source, options)


def estimate_and_write(
    data: "UtteranceData", rows: Sequence[tuple[str, list[str]]], source: str, options: argparse.Namespace
) -> None:
    """Estimate a language model, write it, and print its sizes and its perplexity on the validation split.

    `rows` are place and words of each transcript, and `source` what they are.
    """
    from tqdm import tqdm

    from vitspeech import __version__
    from vitspeech.decoding.language import arpa
    from vitspeech.decoding.language.kneser_ney import estimate
    from vitspeech.decoding.vocabulary import vocabulary_kind
    from vitspeech.files import write_text

    if options.words:
        kind, vocabulary = "words", sorted({word for _, words in rows for word in words})
        index, unknown = {word: place for place, word in enumerate(vocabulary)}, len(vocabulary) + 2  # after <s>, </s>
        tell_unwritten(vocabulary, data)

        def encode(words: Sequence[str]) -> list[int]:
            return [index.get(word, unknown) for word in words]

        encode_known = encode
    else:
        kind, vocabulary = vocabulary_kind(data.labels), data.labels
        encode, encode_known = data.encode, data.encode_known
    utterances = []
    for place, words in tqdm(rows, desc="transcripts", unit="", leave=False, delay=2):
        try:
            utterances.append(encode(words))
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
    order = options.order or ORDERS[kind]
    print(f"{len(utterances):,} {source}, {sum(map(len, utterances)):,} {kind}, order {order}", flush=True)
    model = estimate(utterances, vocabulary, order, kind=kind, has_unknown=options.words)
    file = io.StringIO()
    arpa.write(model, file, [f"vitspeech {__version__}: modified Kneser-Ney, {len(utterances)} {source}"])
    write_text(file.getvalue(), options.out)
    held_out = [encode_known(words) for words in data.transcripts("validation")]
    sizes = ", ".join(f"{size:,}" for size in model.sizes)
    print(f"{options.out}: {sizes} n-grams of 1 to {model.order} {kind}")
    print(f"perplexity of {kind} on {len(held_out):,} validation transcripts: {model.perplexity(held_out):.2f}")


def tell_unwritten(vocabulary: Sequence[str], data: "UtteranceData") -> None:
    """Print how many words the units of the data cannot write."""
    unwritten = []
    for word in vocabulary:
        try:
            data.encode([word])
        except InputError:
            unwritten.append(word)
    if unwritten:
        count = f"{len(unwritten):,} of {len(vocabulary):,} words"
        print(f"{count} cannot be written with the units, first {unwritten[0]!r}")


def read_lines(path: Path, words_of: Callable[[str], list[str]]) -> Iterator[tuple[str, list[str]]]:
    """The place and the words, which `words_of` gives, of each line of a text that has any."""
    with path.open(encoding="utf-8-sig") as file:
        try:
            for number, line in enumerate(file, 1):
                if words := words_of(line):
                    yield f"{path}: line {number}", words
        except UnicodeDecodeError:
            raise InputError(f"{path}: not UTF-8 text") from None


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and the overrides of the config's data (`--data.KEY VALUE`)."""
    options, overrides = parser.parse_known_args(arguments)
    for name in overrides:
        if name.startswith("-") and not name.startswith("--data"):
            parser.error(f"unknown: {name}")
    return options, overrides


def training(options: argparse.Namespace, overrides: Sequence[str]) -> "TrainingCLI":
    """The command line of training for the config, whose data is built."""
    from vitspeech.training.train import TrainingCLI

    return TrainingCLI([f"--config={options.config}", *(f"--trust={name}" for name in options.trust), *overrides])
