"""The phonemes of words by eSpeak NG, and how similar two words sound.

The distance of two words is the edit distance of their phonemes (Wagner and Fischer 1974). An insertion or deletion
costs 1, as does a vowel in place of a consonant. Another substitution costs the share of articulatory features that
differ, as in PanPhon (Mortensen et al. 2016), with the features of the IPA chart:

- consonants: voicing 0.25, place 0.25 (0.125 between places of the same region: labial, coronal, dorsal), and manner
  0.5 (0.25 among obstruents and among sonorants)
- vowels: their distance on the chart, whose height and width are 0.5 each; of diphthongs the mean of begin and end

So `bat` and `pat` are 0.25 apart, `bed` and `bad` 0.08, `three` and `tree` 0.38, `no` and `go` 0.75.
"""

import re
from collections.abc import Sequence

import numpy

from vitspeech.data.audio.synthesis import Synthesizer

LANGUAGE = "en-us"  # the accent whose phonemes are compared
MARKS = re.compile(r"[',%=]")  # stress
REGIONS = {"labial": 0, "dental": 1, "alveolar": 1, "postalveolar": 1, "palatal": 2, "velar": 2, "glottal": 2}
OBSTRUENTS = {"plosive", "affricate", "fricative"}
CONSONANTS = {  # voiced, place, manner; in eSpeak's notation, based on Kirshenbaum's
    "p": (0, "labial", "plosive"), "b": (1, "labial", "plosive"),
    "t": (0, "alveolar", "plosive"), "d": (1, "alveolar", "plosive"),
    "k": (0, "velar", "plosive"), "g": (1, "velar", "plosive"),
    "tS": (0, "postalveolar", "affricate"), "dZ": (1, "postalveolar", "affricate"),
    "f": (0, "labial", "fricative"), "v": (1, "labial", "fricative"),
    "T": (0, "dental", "fricative"), "D": (1, "dental", "fricative"),
    "s": (0, "alveolar", "fricative"), "z": (1, "alveolar", "fricative"),
    "S": (0, "postalveolar", "fricative"), "Z": (1, "postalveolar", "fricative"), "h": (0, "glottal", "fricative"),
    "m": (1, "labial", "nasal"), "n": (1, "alveolar", "nasal"), "N": (1, "velar", "nasal"),
    "l": (1, "alveolar", "approximant"), "r": (1, "postalveolar", "approximant"),
    "w": (1, "labial", "glide"), "j": (1, "palatal", "glide"),
}  # fmt: skip
VOWELS = {  # height (0 close, 1 open) and backness (0 front, 1 back) at the begin and at the end
    "i:": (0, 0, 0, 0), "I": (1 / 6, 1 / 4, 1 / 6, 1 / 4), "E": (2 / 3, 0, 2 / 3, 0), "a": (5 / 6, 0, 5 / 6, 0),
    "0": (1, 1, 1, 1), "O:": (2 / 3, 1, 2 / 3, 1), "U": (1 / 6, 3 / 4, 1 / 6, 3 / 4), "u:": (0, 1, 0, 1),
    "V": (2 / 3, 3 / 4, 2 / 3, 3 / 4), "3:": (2 / 3, 1 / 2, 2 / 3, 1 / 2), "@": (1 / 2, 1 / 2, 1 / 2, 1 / 2),
    "eI": (1 / 3, 0, 1 / 6, 1 / 4), "aI": (1, 1 / 4, 1 / 6, 1 / 4), "OI": (2 / 3, 1, 1 / 6, 1 / 4),
    "aU": (1, 1 / 2, 1 / 6, 3 / 4), "oU": (1 / 2, 3 / 4, 1 / 6, 3 / 4),
    "A@": (1, 1, 1 / 2, 1 / 2), "o@": (2 / 3, 1, 1 / 2, 1 / 2), "e@": (2 / 3, 0, 1 / 2, 1 / 2),
    "i@": (1 / 6, 0, 1 / 2, 1 / 2), "U@": (1 / 6, 3 / 4, 1 / 2, 1 / 2), "aI@": (1, 1 / 4, 1 / 2, 1 / 2),
}  # fmt: skip
VARIANTS = {  # of a phoneme by its position, and the phoneme
    "t#": "t", "t2": "t", "t[": "t", "?": "t", "d#": "d", "n-": "n", "r-": "r",
    "i": "i:", "I2": "I", "I#": "I", "aa": "a", "A:": "0", "O2": "0", "u": "u:",
    "a#": "@", "3": "@", "@2": "@", "@-": "@", "O@": "o@", "i@3": "i@", "aI3": "aI@",
}  # fmt: skip


def phonemes(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The phonemes of each text in eSpeak's ASCII notation, without stress: `stop` -> `("s", "t", "0", "p")`.

    Variants that depend on the position, such as the `t` of `heating` in American English, count as their phoneme. A
    text with nothing to pronounce has none. Ten thousand words take about a quarter of a second.

    Args:
        words: Words or phrases, or phonemes as `stressed_phonemes` gives them, joined by `|`: `[[s|t|'0|p]]`.

    Raises:
        MissingExtraError: If the extra `spoken` is not installed.
    """
    return [plain(part for word in spoken for part in word) for spoken in stressed_phonemes(words)]


def stressed_phonemes(texts: Sequence[str]) -> list[list[list[str]]]:
    """The phonemes of each word of each text as eSpeak writes them, with marks of stress before vowels."""
    with Synthesizer() as synthesizer:
        spoken = synthesizer.phonemes([text for text in texts if not text.startswith("[[")], LANGUAGE)
    rest = iter(spoken)
    notations = [text[2:-2].replace("|", "_") if text.startswith("[[") else next(rest) for text in texts]
    return [[list(filter(None, word.split("_"))) for word in notation.split()] for notation in notations]


def plain(spoken: Sequence[str]) -> tuple[str, ...]:
    """Phonemes without stress and variants; marks that are no phonemes, such as pauses, are left out."""
    found = []
    for part in spoken:
        part = MARKS.sub("", part)
        found += ["@", "l"] if part == "@L" else [VARIANTS.get(part, part)]
    return tuple(part for part in found if part in INDEX)


def distance(first: Sequence[str], second: Sequence[str]) -> float:
    """The distance of two words in phonemes, 0 if they sound alike; see the module.

    Args:
        first: From `phonemes`.
        second: From `phonemes`.
    """
    return float(distances(first, [second])[0])


def distances(word: Sequence[str], others: Sequence[Sequence[str]]) -> numpy.ndarray:
    """The distance of a word from each of O others: (O,). One table for all of them, so that thousands are cheap."""
    longest = max(map(len, others), default=0)
    table = numpy.zeros((len(others), longest), numpy.int64)
    for row, other in zip(table, others, strict=True):
        row[: len(other)] = [INDEX[part] for part in other]
    lengths = numpy.array([len(other) for other in others], numpy.int64)
    # costs[:, k] is that of the word's phonemes so far against the first k of the other.
    costs = numpy.tile(numpy.arange(longest + 1, dtype=numpy.float64), (len(others), 1))
    for part in word:
        previous, substituted = costs, SUBSTITUTION[INDEX[part]][table]
        costs = previous + 1
        for k in range(longest):
            both = numpy.minimum(previous[:, k] + substituted[:, k], costs[:, k] + 1)
            costs[:, k + 1] = numpy.minimum(costs[:, k + 1], both)
    return numpy.take_along_axis(costs, lengths[:, None], 1)[:, 0]


def substitution(first: str, second: str) -> float:
    """The cost of a phoneme in place of another; see the module."""
    if first == second:
        return 0.0
    if first in VOWELS and second in VOWELS:
        return sum(abs(one - other) for one, other in zip(VOWELS[first], VOWELS[second], strict=True)) / 4
    if first in VOWELS or second in VOWELS:
        return 1.0
    (voice, place, manner), (other_voice, other_place, other_manner) = CONSONANTS[first], CONSONANTS[second]
    is_same_region = REGIONS[place] == REGIONS[other_place]
    is_same_kind = (manner in OBSTRUENTS) == (other_manner in OBSTRUENTS)
    cost = 0.25 * (voice != other_voice)
    cost += 0 if place == other_place else 0.125 if is_same_region else 0.25
    return cost + (0 if manner == other_manner else 0.25 if is_same_kind else 0.5)


INDEX = {part: index for index, part in enumerate((*CONSONANTS, *VOWELS))}
SUBSTITUTION = numpy.array([[substitution(first, second) for second in INDEX] for first in INDEX])
