"""Manifests: files that specify composed utterances to the sample, so that results are comparable.

A manifest is a file of JSON lines, one utterance per line; its checksum is in SHA256SUMS beside it. All numbers are
samples at 16 kHz, except `snr_db`:

    id       name of the utterance          words    transcript
    samples  length                         clips    clip of each word, by its name in the word source
    cuts     [first, last + 1] sample of each word in its clip
    starts   first sample of each word in the utterance; its duration is that of the cut
    noise    [recording, first sample within the split's part of it]; the part is repeated if it ends
    snr_db   signal-to-noise ratio of the words and the noise
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from vitspeech.errors import InputError
from vitspeech.files import read_text, sha256, write_text
from vitspeech.json_text import parse_json

CHECKSUMS = "SHA256SUMS"
CHECKSUM_LINE = re.compile(r"^([0-9a-f]{64}) [ *](.+)$", re.MULTILINE)  # `sha256sum --binary` writes the asterisk
MOST_BYTES = 2**26  # of a manifest: 100,000 utterances
LONGEST_SAMPLES = 10 * 60 * 16_000  # of an utterance: ten minutes
LAST_SAMPLE = 2**31  # of a recording of noise


@dataclass(frozen=True)
class Utterance:
    """One line of a manifest; the fields are described at the top of this file."""

    id: str
    words: list[str]
    samples: int
    clips: list[str]
    cuts: list[list[int]]
    starts: list[int]
    noise: list
    snr_db: float

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First sample of each word in the utterance and the one after its last."""
        return [(start, start + last - first) for start, (first, last) in zip(self.starts, self.cuts, strict=True)]


def write_manifest(utterances: Sequence[Utterance], file: str | Path) -> str:
    """Write a manifest and its line in the folder's SHA256SUMS; return its SHA-256."""
    file = Path(file)
    write_text("".join(json.dumps(asdict(item), separators=(",", ":")) + "\n" for item in utterances), file)
    return add_checksum(file)


def add_checksum(file: Path) -> str:
    """Write a file's line in the folder's SHA256SUMS; return its SHA-256."""
    checksums = read_checksums(file.parent / CHECKSUMS) | {file.name: sha256(file)}
    write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(checksums.items())), file.parent / CHECKSUMS)
    return checksums[file.name]


def read_manifest(file: str | Path) -> list[Utterance]:
    """Read the utterances of a manifest."""
    file = Path(file)
    expected, actual = read_checksums(file.parent / CHECKSUMS).get(file.name), sha256(file)
    if expected != actual:
        reason = f"{CHECKSUMS} says {expected}" if expected else f"{CHECKSUMS} beside it has no line for it"
        raise InputError(f"{file}: its sha256 is {actual}, but {reason}: not the manifest that results are compared on")
    utterances = []
    for number, line in enumerate(read_text(file, most_bytes=MOST_BYTES).splitlines(), 1):
        try:
            utterances.append(Utterance(**parse_json(line, "JSON")))
            problem = problem_of(utterances[-1])
        except (ValueError, TypeError, KeyError) as error:
            problem = error
        if problem is not None:
            raise InputError(f"{file}: line {number} is not a valid utterance: {problem}")
    return utterances


def problem_of(utterance: Utterance) -> str | None:
    """What is wrong with the fields of an utterance; `None` if nothing is."""
    lengths = [len(field) for field in (utterance.words, utterance.clips, utterance.cuts, utterance.starts)]
    if not utterance.words or len(set(lengths)) > 1:
        return f"words, clips, cuts and starts are empty or differ in length: {', '.join(map(str, lengths))}"
    for word, (first, last), start in zip(utterance.words, utterance.cuts, utterance.starts, strict=True):
        if not 0 <= first < last or not 0 <= start <= utterance.samples - (last - first):
            return f"{word!r}, cut {first!r} to {last!r}, does not fit at {start!r} of {utterance.samples!r} samples"
    if [type(part) for part in utterance.noise] != [str, int] or not 0 <= utterance.noise[1] < LAST_SAMPLE:
        return f"noise={utterance.noise!r} is not a recording with its first sample"
    positions = (utterance.samples, *utterance.starts, *(position for cut in utterance.cuts for position in cut))
    if not all(isinstance(position, int) for position in positions) or not math.isfinite(utterance.snr_db):
        return f"a number of samples is not an integer, or snr_db={utterance.snr_db!r} is not finite"
    if utterance.samples > LONGEST_SAMPLES:
        return f"samples={utterance.samples!r} is above {LONGEST_SAMPLES:,}, ten minutes"
    if not all(isinstance(name, str) for name in (utterance.id, *utterance.words, *utterance.clips)):
        return "its id, a word or the name of a clip is not a text"
    return None


def read_checksums(file: Path) -> dict[str, str]:
    """The SHA-256 of each file name in a SHA256SUMS file; empty if the file does not exist."""
    return {name: digest for digest, name in CHECKSUM_LINE.findall(read_text(file))} if file.exists() else {}
