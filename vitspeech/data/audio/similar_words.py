"""Words that sound similar to keywords, by the phonemes of eSpeak NG: what a spotter must tell from them.

The distance of two words is the edit distance of their phonemes (Wagner and Fischer 1974). An insertion or deletion
costs 1, as does a vowel in place of a consonant. Another substitution costs the share of articulatory features that
differ, as in PanPhon (Mortensen et al. 2016), with the features of the IPA chart:

- consonants: voicing 0.25, place 0.25 (0.125 between places of the same region: labial, coronal, dorsal), and manner
  0.5 (0.25 among obstruents and among sonorants)
- vowels: their distance on the chart, whose height and width are 0.5 each; of diphthongs the mean of begin and end

So `bat` and `pat` are 0.25 apart, `bed` and `bad` 0.08, `three` and `tree` 0.38, `no` and `go` 0.75.

Near-homophones are made by changing one phoneme of a keyword. So they include every word, of any language, that is one
phoneme away as eSpeak says it. No list of words covers these, so the package needs none besides its own vocabulary.

In languages other than English, a phoneme that English lacks costs 1 in place of any other, variants count as phonemes
of their own, and near-homophones have no phonemes but those that eSpeak has in the listed words.
"""

import hashlib
import itertools
import re
import unicodedata
import warnings
from collections.abc import Container, Iterable, Sequence

import numpy

from vitspeech.data.audio.continuous import occurrences
from vitspeech.data.audio.synthesis import SAMPLE_RATE_HZ, Synthesizer, Voice, accents, is_english, synthesize
from vitspeech.data.audio.vocabulary import WORDS
from vitspeech.errors import InputError

AMERICAN = "en-us"  # the accent whose phonemes are compared in English
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


def phonemes(words: Sequence[str], language: str = "en") -> list[tuple[str, ...]]:
    """The phonemes of each text in eSpeak's ASCII notation, without stress: `stop` -> `("s", "t", "0", "p")`.

    Texts are words, phrases, or phonemes as `stressed_phonemes` gives them, joined by `|`: `[[s|t|'0|p]]`. Variants
    that depend on the position, such as the `t` of `heating` in American English, count as their phoneme. A text with
    nothing to pronounce has none. Ten thousand words take about a quarter of a second.
    """
    spoken = stressed_phonemes(words, language)
    return [plain((part for word in parts for part in word), language) for parts in spoken]


def stressed_phonemes(texts: Sequence[str], language: str = "en") -> list[list[list[str]]]:
    """The phonemes of each word of each text as eSpeak writes them, with marks of stress before vowels."""
    accent = AMERICAN if is_english(language) else accents(language)[0]
    with Synthesizer(language) as synthesizer:
        spoken = synthesizer.phonemes([text for text in texts if not text.startswith("[[")], accent)
    rest = iter(spoken)
    notations = [text[2:-2].replace("|", "_") if text.startswith("[[") else next(rest) for text in texts]
    return [[list(filter(None, word.split("_"))) for word in notation.split()] for notation in notations]


def plain(spoken: Iterable[str], language: str = "en") -> tuple[str, ...]:
    """Phonemes without stress and variants; marks that are no phonemes, such as pauses, are left out."""
    if not is_english(language):
        parts = (MARKS.sub("", part) for part in spoken if not part.startswith("("))
        return tuple(part for part in parts if any(map(str.isalnum, part)) or part == "@")
    found = []
    for part in spoken:
        part = MARKS.sub("", part)
        found += ["@", "l"] if part == "@L" else [VARIANTS.get(part, part)]
    return tuple(part for part in found if part in INDEX)


def distance(first: Sequence[str], second: Sequence[str]) -> float:
    """The distance of two words in phonemes, 0 if they sound alike; see the module."""
    return float(distances(first, [second])[0])


def distances(word: Sequence[str], others: Sequence[Sequence[str]]) -> numpy.ndarray:
    """The distance of a word from each of O others: (O,). One table for all of them, so that thousands are cheap."""
    foreign = sorted({*word, *itertools.chain(*others)} - INDEX.keys())
    index = INDEX | {part: len(INDEX) + number for number, part in enumerate(foreign)}
    costs_of = 1 - numpy.eye(len(index))
    costs_of[: len(INDEX), : len(INDEX)] = SUBSTITUTION
    longest = max(map(len, others), default=0)
    table = numpy.zeros((len(others), longest), numpy.int64)
    for row, other in zip(table, others, strict=True):
        row[: len(other)] = [index[part] for part in other]
    lengths = numpy.array([len(other) for other in others], numpy.int64)
    # costs[:, k] is that of the word's phonemes so far against the first k of the other.
    costs = numpy.tile(numpy.arange(longest + 1, dtype=numpy.float64), (len(others), 1))
    for part in word:
        previous, substituted = costs, costs_of[index[part]][table]
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


NEAR = 1.0  # largest distance of a near-homophone: one phoneme more, less or another
CONFUSABLE = 0.4  # largest distance of two keywords that one similar phoneme tells apart, such as `three` and `tree`
LONGEST_LETTER = 6  # phonemes of a letter that is read; voices say "Chinese letter" of those that they don't know
SHORTEST_S = 0.2  # shorter words have too few frames to be told from parts of others
OTHER_VOWEL = 0.25  # smallest distance of a vowel that makes another word in most accents
PURE_VOWELS = [part for part in VOWELS if "@" not in part]  # the others depend on an r that accents drop
SAME_WORD = {("N", "n"), ("T", "f"), ("T", "t"), ("D", "d"), ("D", "v")}  # said in place of each other


def spoken_negatives(
    words: Sequence[str],
    count: int,
    extra_words: Sequence[str] = (),
    *,
    excluded: Sequence[str] = (),
    language: str = "en",
) -> list[str]:
    """Texts for eSpeak that a spotter of keywords must not react to: near-homophones first, then other words.

    Half of them are near-homophones, as far as there are: words of the package's vocabulary and of `extra_words`, such
    as those of transcripts, and each keyword with one phoneme changed (`changed_words`). The others are words of these
    two lists. There may be fewer than `count`: about 1,200 and 50 for each keyword. See `similar_words` for the order
    and for what is left out.
    """
    known = WORDS.read_text(encoding="ascii").split()
    listed = dict.fromkeys([*known, *(word.lower() for word in extra_words)])
    candidates = [*listed, *changed_words(words, language, listed)]
    return similar_words(words, candidates, count, near=0.5, excluded=excluded, language=language)


def similar_words(
    words: Sequence[str],
    candidates: Sequence[str],
    count: int,
    *,
    near: float = 1.0,
    excluded: Sequence[str] = (),
    language: str = "en",
) -> list[str]:
    """Choose `count` candidates, texts for eSpeak: near-homophones of the words first, then others at random.

    A near-homophone is at most `NEAR` from a word; the nearest comes first, of each word in turn. At most the share
    `near` are near-homophones, as long as there are others. What is random depends on the text alone, so the choice is
    always the same. The words, homophones of them, candidates that sound like an earlier one or less than `OTHER_VOWEL`
    from one of `excluded`, and those that eSpeak cannot say are left out, so there may be fewer than `count`.
    """
    texts = {}
    for sounds, text in zip(phonemes(candidates, language), candidates, strict=True):
        texts.setdefault(sounds, text)
    texts.pop((), None)
    for sounds in phonemes(excluded, language):
        near_excluded = distances(sounds, list(texts)) < OTHER_VOWEL
        texts = {
            other: text for (other, text), is_near in zip(texts.items(), near_excluded, strict=True) if not is_near
        }
    apart = numpy.array([distances(word, list(texts)) for word in phonemes(words, language)])  # (words, candidates)
    by_word: list[list[tuple[float, str]]] = [[] for _ in words]
    others = []
    for text, distances_of_text in zip(texts.values(), apart.T, strict=True):
        nearest = distances_of_text.argmin()
        if distances_of_text[nearest] > NEAR:
            others.append(text)
        elif distances_of_text[nearest] > 0:
            by_word[nearest].append((distances_of_text[nearest], text))
    for found in by_word:
        found.sort(key=lambda pair: (pair[0], draw(pair[1])))
    in_turn = [pair[1] for pairs in itertools.zip_longest(*by_word) for pair in pairs if pair is not None]
    first = in_turn[: max(round(near * count), count - len(others))]
    return [*first, *sorted(others, key=draw)[: count - len(first)]]


def draw(text: str) -> bytes:
    """A random number that depends on the text only; sorting by it draws texts at random."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def changed_words(words: Sequence[str], language: str = "en", listed: Iterable[str] = ()) -> list[str]:
    """Each word with one phoneme changed, as phonemes for eSpeak: `[[s|t|'0|b]]` for `stop`.

    A consonant is replaced by another, a stressed vowel by one that is at least `OTHER_VOWEL` away, and a phoneme that
    is not the last one is left out. Sounds that people vary without changing the word stay as they are: unstressed
    vowels, vowels near each other, which differ between accents, last consonants that they drop, and the pairs in
    `SAME_WORD`. Nothing is added, since the word would be whole in the result. In a language other than English, the
    replacements are phonemes of the words and of the listed ones.
    """
    changed = {}
    known = INDEX if is_english(language) else own_phonemes([*words, *listed], language)
    for spoken in stressed_phonemes(words, language):
        for number, parts in enumerate(spoken):
            for index in range(len(parts)):
                omitted = [[]] if index < len(parts) - 1 and len(parts) > 2 else []
                for others in omitted + [[other] for other in replacements(parts, index, language, known)]:
                    new = [*parts[:index], *others, *parts[index + 1 :]]
                    if any(sound not in CONSONANTS for sound in plain(new, language)):
                        texts = ["|".join(sounds) for sounds in (*spoken[:number], new, *spoken[number + 1 :])]
                        changed[f"[[{' '.join(texts)}]]"] = None
    return list(changed)


def own_phonemes(texts: Sequence[str], language: str) -> set[str]:
    """The phonemes of texts that eSpeak reads by the language alone, without the rules of English."""
    spoken = (word for words in stressed_phonemes(texts, language) for word in words)
    return {part for word in spoken if not is_switched(word) for part in plain(word, language)}


def is_switched(spoken: Iterable[str]) -> bool:
    """Whether eSpeak reads phonemes by another language, whose code it writes as `(en)`."""
    return any("(" in part for part in spoken)


def replacements(parts: Sequence[str], index: int, language: str, known: Container[str]) -> list[str]:
    """The known phonemes that may stand in place of one of a word's, with its stress; see `changed_words`."""
    sounds = plain(parts, language)
    if len(sounds) != len(parts):  # it has marks that are no phonemes
        return []
    sound, stress = sounds[index], "".join(MARKS.findall(parts[index]))
    if sound in CONSONANTS:
        before_vowel = index + 1 < len(sounds) and sounds[index + 1] in VOWELS
        foreign = {sound, "N" if index == 0 else "", *("" if before_vowel else "hwjr")}
        others = [other for other in CONSONANTS if other not in foreign and (sound, other) not in SAME_WORD]
        return [other for other in others if other in known]
    if sound not in PURE_VOWELS or (not stress and sum(other in VOWELS for other in sounds) > 1):
        return []
    return [stress + other for other in PURE_VOWELS if other in known and substitution(sound, other) >= OTHER_VOWEL]


def check_words(words: Sequence[str], language: str = "en") -> None:
    """Check that a spotter can tell words from each other, before they are recorded or synthesized.

    Args:
        words: Words or phrases.
        language: One that eSpeak NG has, such as `en`, `de` or `en-us`.

    Raises:
        InputError: If none is given, two sound alike, or one cannot be said in the language.

    Warns:
        UserWarning: If two are within `CONFUSABLE` of each other, such as `bed` and `bad`, one is said within another
            (`warn_of_parts`), or one lasts under `SHORTEST_S` as eSpeak says it: the mean of its accents at its usual
            rate.
    """
    if not words or len({word.casefold() for word in words}) < len(words):
        raise InputError(f"words: none is given, or one twice: {', '.join(words)}")
    warn_of_parts(words)
    sounds = phonemes(words, language)
    for word, its_sounds in zip(words, sounds, strict=True):
        if not its_sounds or not is_written_in(language, word):
            letters = "; write it with the letters a to z and spaces" if is_english(language) else ""
            name = "English" if is_english(language) else repr(language)
            raise InputError(f"words: eSpeak NG cannot say {word!r} in {name}{letters}")
    pairs = [
        (distance(sounds[i], sounds[k]), words[i], words[k]) for i, k in itertools.combinations(range(len(words)), 2)
    ]
    for apart, first, second in sorted(pairs):
        if apart == 0:
            raise InputError(f"words: {first!r} and {second!r} sound alike (distance 0 phonemes); leave one out")
        if apart <= CONFUSABLE:
            message = f"{first!r} and {second!r} sound similar (distance {apart:.2f} phonemes, up to {CONFUSABLE} is"
            warnings.warn(f"words: {message} easily confused)", stacklevel=2)
    for word in words:
        duration_s = spoken_duration_s(word, language)
        if duration_s < SHORTEST_S:
            message = f"{word!r} lasts {1000 * duration_s:.0f} ms, below {1000 * SHORTEST_S:.0f} ms"
            warnings.warn(f"words: {message}: expect false alarms; a longer word is better", stacklevel=2)


def warn_of_parts(words: Sequence[str]) -> None:
    """Warn once of words that are said within others, such as `view` in `view glass`."""
    pairs = [(part, whole) for part, whole in itertools.permutations(words, 2) if occurrences(whole.split(), part)]
    if pairs:
        names = ", ".join(f"{part!r} inside {whole!r}" for part, whole in pairs)
        warnings.warn(f"words: the shorter is heard in the longer, too: {names}", stacklevel=3)


def is_written_in(language: str, word: str) -> bool:
    """Whether a word has letters or digits, all of them of the language's script.

    Of others English voices say "Chinese letter", and voices of other languages change to English or spell them.
    """
    signs = [sign for sign in word if sign.isalnum()]
    others = [sign for sign in word if not sign.isalnum() and sign not in " '’.-"]
    latin = all(map(is_latin, signs))
    if (latin and others) or not signs:
        return False
    if is_english(language):
        return latin
    # A language of a Latin script may read single words, such as `computer`, by the rules of English.
    probe, spoken = ([*itertools.chain(*said)] for said in stressed_phonemes(["lamana", word], language))
    is_read = latin or len(plain(spoken, language)) <= LONGEST_LETTER * len(signs)
    return (latin and not is_switched(probe)) or (is_read and not is_switched(spoken))


def is_latin(sign: str) -> bool:
    """Whether a sign is a digit or a Latin letter."""
    return sign.isdigit() or "LATIN" in unicodedata.name(sign, "")


def spoken_duration_s(word: str, language: str = "en") -> float:
    """The mean duration of a word in eSpeak's accents of a language, at its usual rate."""
    voices = [Voice(accent) for accent in accents(language)]
    sounds = synthesize([word] * len(voices), voices, language)
    return sum(map(len, sounds)) / len(sounds) / SAMPLE_RATE_HZ
