r"""ARPA files of n-gram language models: text with base-10 logarithms, which KenLM, SRILM and others read and write.

    # units: characters

    \data\
    ngram 1=30
    ngram 2=512

    \1-grams:
    -99     <s>  -0.42
    ...
    \end\

A line of an n-gram has its log-probability, its tokens and, below the highest order, its back-off weight; 0 may be left
out. Lines before `\data\` are ignored, as the format wants it, apart from `# units: ` with words, characters or pieces.
A space is written as `<space>`, because white space separates tokens.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO, get_args

import numpy

from vitspeech.decoding.language.ngrams import BEGIN, END, MOST_ORDER, NEVER, UNKNOWN, Kind, NgramModel
from vitspeech.errors import InputError, shown

SPACE = "<space>"
UNITS = "# units: "
TO_TEN = math.log(10)
ROUNDING = 1e-4  # log-probabilities above 0 by this much are those of rounded numbers


class Lines:
    """The lines of a file with their number, for messages."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self.file, self.path, self.number, self.text = file, path, 0, ""

    def __iter__(self) -> Iterator[str]:
        for line in self.file:
            self.number += 1
            self.text = line
            yield line.strip()

    def expect(self, title: str, line: str) -> None:
        """Check that a line is the title of the section that comes next."""
        if line != title:
            raise self.error(f"{shown(line)} in the place of {title}")

    def error(self, message: str, number: int | None = None) -> InputError:
        """The error of a line, by default the last one that was read."""
        return InputError(f"{self.path}: line {number or self.number}: {message}")


def read(path: str | Path) -> NgramModel:
    """Read a language model from an ARPA file.

    Raises:
        FileNotFoundError: If there is no such file.
        InputError: If it is not an ARPA file; the message names the line.
    """
    path = Path(path)
    with path.open(encoding="utf-8-sig") as file:
        lines = Lines(file, path)
        try:
            return read_lines(lines)
        except UnicodeDecodeError:
            raise lines.error("not UTF-8 text; a language model is an ARPA file", lines.number + 1) from None


def read_lines(lines: Lines) -> NgramModel:
    """Read the sections of an ARPA file."""
    content = iter(lines)
    kind, sizes, title = read_header(lines, content)
    levels: list[list[numpy.ndarray]] = []
    vocabulary: list[str] = []
    for order, size in enumerate(sizes, 1):
        lines.expect(f"\\{order}-grams:", title)
        begin = lines.number + 1
        tokens, numbers, title = read_section(lines, content, order, size, vocabulary)
        levels.append(to_level(lines, begin, tokens, numbers, levels, vocabulary))
    lines.expect("\\end\\", title)
    parents, tokens, logs, backoffs = (numpy.concatenate(column) for column in zip(*levels, strict=True))
    return NgramModel(vocabulary, parents, tokens, logs, numpy.append(0.0, backoffs), sizes=sizes, kind=kind)


def read_header(lines: Lines, content: Iterator[str]) -> tuple[Kind | None, list[int], str]:
    """The kind of the units if the file names it, the number of n-grams of each order, and the line after these."""
    kind = None
    for line in content:
        if line.startswith(UNITS):
            kind = line.removeprefix(UNITS)
            if kind not in get_args(Kind):
                raise lines.error(f"units are {shown(kind)}, not {', '.join(get_args(Kind))}")
        if line == "\\data\\":
            break
    else:
        raise InputError(f"{lines.path}: has no line \\data\\; a language model is an ARPA file")
    sizes, line = [], ""
    for line in content:
        if line.startswith("\\"):
            break
        name, _, count = line.removeprefix("ngram ").partition("=")
        if line and not (name.strip() == str(len(sizes) + 1) and count.strip().isdecimal() and len(count) < 16):
            raise lines.error(f"{shown(line)} in the place of ngram {len(sizes) + 1}=COUNT")
        sizes += [int(count)] if line else []
    if not 1 <= len(sizes) <= MOST_ORDER or not all(sizes):
        raise lines.error(f"the header has the numbers of n-grams {sizes}; there must be 1 to {MOST_ORDER}, above 0")
    return kind, sizes, line


def read_section(
    lines: Lines, content: Iterator[str], order: int, size: int, vocabulary: list[str]
) -> tuple[numpy.ndarray, numpy.ndarray, str]:
    """Read the n-grams of one order: their tokens, their log-probabilities and back-off weights, and the line after.

    The tokens of the first order are added to the vocabulary.
    """
    index = {token: place for place, token in enumerate(vocabulary)}
    tokens, logs, backoffs, title = [], [], [], ""  # flat lists: a million lists would keep the garbage collector busy
    for line in content:
        if line.startswith("\\") and len(logs) == size:
            title = line
            break
        fields = line.split()
        if not fields:
            continue
        if len(logs) == size or not order + 1 <= len(fields) <= order + 2:
            raise lines.error(f"{shown(line)} is not one of {size:,} n-grams of {order} tokens with its logarithms")
        names = [token_of(name) for name in fields[1 : order + 1]]
        if order == 1:
            vocabulary += [] if names[0] in index else names  # of a token that is there twice, `to_level` says so
            index.setdefault(names[0], len(index))
        try:
            tokens.extend([index[name] for name in names])
            logs.append(float(fields[0]))
            backoffs.append(float(fields[-1]) if len(fields) > order + 1 else 0.0)
        except KeyError as error:
            raise lines.error(f"{error.args[0]!r} is not among the 1-grams") from None
        except ValueError:
            raise lines.error(f"{shown(line)} does not begin or end with a number") from None
        if not logs[-1] <= ROUNDING or not -math.inf < backoffs[-1] < math.inf:
            raise lines.error(f"{fields[0]} or {fields[-1]} is not a base-10 logarithm of a probability or a weight")
    if len(logs) < size:
        raise lines.error(f"the file ends after {len(logs):,} of {size:,} n-grams of {order} tokens")
    missing = next((name for name in (BEGIN, END) if order == 1 and name not in index), None)
    if missing:
        raise lines.error(f"{missing} is not among the 1-grams")
    return numpy.array(tokens).reshape(-1, order), numpy.array((logs, backoffs)).T * TO_TEN, title


def to_level(
    lines: Lines,
    begin: int,
    tokens: numpy.ndarray,
    numbers: numpy.ndarray,
    levels: Sequence[Sequence[numpy.ndarray]],
    vocabulary: Sequence[str],
) -> list[numpy.ndarray]:
    """Sort the n-grams of one order by their contexts: nodes of the contexts, tokens, log-probabilities, weights.

    The first n-gram is on line `begin`; `numbers` (N, 2) are its log-probabilities and weights, `levels` those of the
    orders below, `tokens` (N, order).
    """
    size, parents = len(vocabulary), numpy.zeros(len(tokens), dtype=numpy.int64)
    if levels:
        keys = numpy.concatenate([level[0] * size + level[1] for level in levels])
        for length, column in enumerate(tokens.T[:-1], 1):
            wanted = parents * size + column
            places = numpy.minimum(numpy.searchsorted(keys, wanted), len(keys) - 1)
            missing = numpy.flatnonzero(keys[places] != wanted)
            if missing.size:
                context = " ".join(name_of(vocabulary[token]) for token in tokens[missing[0], :length])
                number = begin + int(missing[0])
                raise lines.error(f"its context {shown(context)} is not among the {length}-grams", number)
            parents = places + 1
    order = numpy.lexsort((tokens[:, -1], parents))
    keys = (parents * size + tokens[:, -1])[order]
    twice = numpy.flatnonzero(keys[1:] == keys[:-1])
    if twice.size:
        raise lines.error("the n-gram is there twice", begin + int(order[twice[0] + 1]))
    logs = numpy.clip(numbers[:, 0], NEVER, 0.0)
    return [column[order] for column in (parents, tokens[:, -1], logs, numbers[:, 1])]


def write(model: NgramModel, file: TextIO, comments: Sequence[str] = ()) -> None:
    """Write a language model as an ARPA file."""
    names = [name_of(token) for token in model.vocabulary]
    for comment in (*comments, *([f"units: {model.kind}"] if model.kind else [])):
        file.write(f"# {comment}\n")
    file.write("\n\\data\\\n")
    for order, size in enumerate(model.sizes, 1):
        file.write(f"ngram {order}={size}\n")
    texts, last = [""], len(model.sizes)
    logs, backoffs = (model.log_probabilities / TO_TEN).tolist(), (model.backoffs / TO_TEN).tolist()
    parents, tokens, first = model.parents.tolist(), model.tokens.tolist(), 0
    for order, size in enumerate(model.sizes, 1):
        file.write(f"\n\\{order}-grams:\n")
        places = range(first, first + size)
        new = [f"{texts[parents[place]]} {names[tokens[place]]}".strip() for place in places]
        for text, place in zip(new, places, strict=True):
            backoff = f"\t{backoffs[place + 1]:.7g}" if order < last and backoffs[place + 1] else ""
            file.write(f"{logs[place]:.7g}\t{text}{backoff}\n")
        texts += new
        first += size
    file.write("\n\\end\\\n")


def name_of(token: str) -> str:
    """How an ARPA file writes a token."""
    if token == " ":
        return SPACE
    if token.split() != [token] or token == SPACE:
        raise InputError(f"{token!r} cannot be a token of a language model: it has white space, or a reserved name")
    return token


def token_of(name: str) -> str:
    """The token that an ARPA file writes so."""
    return {SPACE: " ", "<UNK>": UNKNOWN}.get(name, name)
