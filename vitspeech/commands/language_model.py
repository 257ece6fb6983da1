"""Estimate an n-gram language model from the training transcripts of a config, and write it as an ARPA file.

vitspeech language-model spoken_words/sequences words.arpa
vitspeech language-model runs/mine/0/config.yaml characters.arpa --order 8
vitspeech language-model mine.yaml words.arpa --words                 # of words, also for characters or pieces
vitspeech language-model mine.yaml more.arpa --text novels.txt        # of other text
vitspeech language-model spoken_words/sequences characters.arpa --data.units characters

The tokens are the units of the config's data, of which --data.KEY VALUE overrides a key. Validation and test
transcripts are never counted. The smoothing is interpolated modified Kneser-Ney (Chen and Goodman 1998). Use the file
with `transcribe`, `stream` and `evaluate`, by --language-model; docs/language-models.md says how to choose the weights.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vitspeech import command_line

if TYPE_CHECKING:
    from vitspeech.data import UtteranceData

ORDERS = {"characters": 6, "pieces": 4, "words": 3}  # 6 was the best of 3, 6, 8 and 10 for 5 h of LibriSpeech


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `vitspeech language-model`: prints the sizes of the model and its perplexity on the validation split."""
    parser = command_line.parser("language-model", __doc__, usage="%(prog)s CONFIG OUT.arpa [options]")
    parser.add_argument("config", metavar="CONFIG", help="name or file of a config, as for vitspeech train")
    parser.add_argument("out", type=Path, metavar="OUT.arpa", help="the ARPA file to write")
    order = f"tokens of the longest n-grams (default {', '.join(f'{n} for {kind}' for kind, n in ORDERS.items())})"
    parser.add_argument("--order", type=int, metavar="N", help=order)
    parser.add_argument("--words", action="store_true", help="count words, whatever the units of the data are")
    text = (
        "count the lines of this file (UTF-8), written as the data set writes transcripts, instead of those of training"
    )
    parser.add_argument("--text", type=Path, metavar="FILE", help=text)
    command_line.add_trust(parser)
    options, overrides = parser.parse_known_args(arguments)
    wrong = [name for name in overrides if name.startswith("-") and not name.startswith("--data")]
    if wrong:
        parser.error(f"unknown: {wrong[0]}")
    command_line.check_table(options.out, [options.config, *([options.text] if options.text else [])], "OUT.arpa")

    from tqdm import tqdm

    from vitspeech import __version__
    from vitspeech.data import UtteranceData
    from vitspeech.decoding.language import arpa
    from vitspeech.decoding.language.kneser_ney import estimate
    from vitspeech.decoding.language.ngrams import UNKNOWN, check_order
    from vitspeech.decoding.vocabulary import kind_of
    from vitspeech.errors import InputError
    from vitspeech.files import write_text
    from vitspeech.training.train import TrainingCLI

    if options.order is not None:
        check_order(options.order)
    config = [f"--config={options.config}", *(f"--trust={name}" for name in options.trust), *overrides]
    data = TrainingCLI(config).datamodule
    if not isinstance(data, UtteranceData):
        raise InputError(f"{type(data).__name__} has no transcripts: a language model is for recognizers of utterances")
    data.prepare_data()
    if options.text is None:
        source, transcripts = "training transcripts", data.transcripts("train")
        rows = [(f"training transcript {number}", words) for number, words in enumerate(transcripts, 1)]
    else:
        source, rows = f"lines of {options.text.name}", list(read_lines(options.text, data.words_of))
    kind = "words" if options.words else kind_of(data.labels)
    if options.words:
        vocabulary = sorted({word for _, words in rows for word in words})
        index = {word: place for place, word in enumerate(vocabulary)}
        unknown = len(vocabulary) + 2
        if others := [word for word in vocabulary if not is_written(word, data)]:
            count = f"{len(others):,} of {len(vocabulary):,} words"
            print(f"{count} cannot be written with the units, first {others[0]!r}")
    else:
        vocabulary = data.labels

    def encode(words: Sequence[str]) -> list[int]:
        return [index.get(word, unknown) for word in words] if options.words else data.encode(words)

    utterances = []
    for place, words in tqdm(rows, desc="transcripts", unit="", leave=False, delay=2):
        try:
            utterances.append(encode(words))
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
    order = options.order or ORDERS[kind]
    print(f"{len(utterances):,} {source}, {sum(map(len, utterances)):,} {kind}, order {order}", flush=True)
    model = estimate(utterances, vocabulary, order, kind=kind, has_unknown=options.words)
    assert not options.words or model.index[UNKNOWN] == unknown
    comment = f"vitspeech {__version__}: modified Kneser-Ney, {len(utterances)} {source}"
    file = io.StringIO()
    arpa.write(model, file, [comment])
    write_text(file.getvalue(), options.out)
    held_out = [(encode if options.words else data.encode_known)(words) for words in data.transcripts("validation")]
    sizes = ", ".join(f"{size:,}" for size in model.sizes)
    print(f"{options.out}: {sizes} n-grams of 1 to {model.order} {kind}")
    print(f"perplexity of {kind} on {len(held_out):,} validation transcripts: {model.perplexity(held_out):.2f}")


def is_written(word: str, data: "UtteranceData") -> bool:
    """Whether the units of the data can write a word."""
    from vitspeech.errors import InputError

    try:
        data.encode([word])
    except InputError:
        return False
    return True


def read_lines(path: Path, words_of: Callable[[str], list[str]]) -> Iterator[tuple[str, list[str]]]:
    """The place and the words, which `words_of` gives, of each line of a text that has any.

    Raises:
        InputError: If it is not UTF-8.
    """
    from vitspeech.errors import InputError

    with path.open(encoding="utf-8-sig") as file:
        try:
            for number, line in enumerate(file, 1):
                if words := words_of(line):
                    yield f"{path}: line {number}", words
        except UnicodeDecodeError:
            raise InputError(f"{path}: not UTF-8 text") from None
