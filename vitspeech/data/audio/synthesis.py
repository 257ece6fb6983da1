"""Speech synthesis with eSpeak NG through its C interface: any vocabulary, many voices.

A voice is an accent of a language, one of eSpeak's variants (a set of formants, thus a speaker), a rate and a pitch.
The same texts in the same order give the same samples. This requires every `Synthesizer` to load its own copy of the
library, since the state of eSpeak's flutter, roughness and gain control cannot be reset.

Shapes: N samples.
"""

import _ctypes
import ctypes
import functools
import hashlib
import itertools
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy
import torch
from torch import Tensor

from vitspeech.errors import InputError, MissingExtraError, named

SAMPLE_RATE_HZ = 16_000
ESPEAK_RATE_HZ = 22_050
SILENCE = 0.005  # fraction of the peak: quieter samples are trimmed at both ends
VOLUME = 60  # at 100, a third of the variants clip
SPLITS = {"train": 70, "validation": 15, "test": 15}  # per cent of the variants
ACCENTS = ("en-029", "en-gb", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-gb-x-rp", "en-us", "en-us-nyc")
# Reed and caleb are not reproducible, `fast` is not a voice, Marco drawls; the others whisper or sound like robots.
EXCLUDED_VARIANTS = re.compile("Reed|caleb|fast|Marco|whisperf?|Demonic|.*Robot|RicishayMax.?|robosoft.?")
# From speak_lib.h, as are the callback and the order of the parameters. PHONEMES: a text may have [[phonemes]].
SYNCHRONOUS, DO_NOT_EXIT, UTF8, PHONEMES, IPA = 2, 0x8000, 1, 0x100, 2
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


@dataclass(frozen=True)
class Voice:
    """A synthetic voice with its rate and pitch.

    Args:
        language: The accent, one of `accents(language)`.
        variant: The speaker, one of `variants()`.
        rate_wpm: Words per minute, 80 to 449.
        pitch: 0 to 99, from 2/3 to 7/4 of the variant's own pitch, which is at 50.
        pitch_range: 0 to 99, from monotonous to lively; 50 is the variant's own.
    """

    language: str = "en-us"
    variant: str = "m3"
    rate_wpm: int = 175
    pitch: int = 50
    pitch_range: int = 50


class Synthesizer:
    """eSpeak NG as a context manager, which loads a copy of the library from a temporary folder of its own.

    Args:
        language: What its voices speak. English reads words of other scripts letter by letter; other languages take
            the language of the script.
    """

    def __init__(self, language: str = "en") -> None:
        self.language = language

    def __enter__(self) -> Self:
        library, data = espeak_paths()
        self.temporary = tempfile.TemporaryDirectory(prefix="espeak")
        self.folder = Path(self.temporary.name)
        dictionaries = ["en_dict"] if is_english(self.language) else [file.name for file in data.glob("*_dict")]
        for name in ("phondata", "phonindex", "phontab", "intonations", "voices", *dictionaries):
            (self.folder / name).symlink_to(data / name)
        # eSpeak finds an accent at once by the name of its file; otherwise it reads all its voices for every text.
        (self.folder / "lang").mkdir()
        for name, file in voice_files().items():
            if not is_english(self.language) or is_english(name):
                (self.folder / "lang" / name).symlink_to(file)
        # A reference to the callback must be kept as long as eSpeak uses it.
        self.sound, self.receiver = bytearray(), CALLBACK(self.receive)
        self.library = ctypes.CDLL(str(shutil.copy(library, self.folder)))
        rate_hz = self.library.espeak_Initialize(SYNCHRONOUS, 0, os.fsencode(self.folder), DO_NOT_EXIT)
        if rate_hz != ESPEAK_RATE_HZ:
            self.__exit__()
            raise OSError(f"eSpeak NG cannot read its data in {self.folder}; a shorter TMPDIR may help")
        self.library.espeak_SetSynthCallback(self.receiver)
        self.library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        return self

    def __exit__(self, *_: object) -> None:
        self.library.espeak_Terminate()
        (_ctypes.FreeLibrary if sys.platform == "win32" else _ctypes.dlclose)(self.library._handle)
        self.temporary.cleanup()

    def receive(self, samples: int | None, count: int, events: int | None) -> int:
        """Receive samples from eSpeak; returning 0 asks for more."""
        self.sound.extend(ctypes.string_at(samples, 2 * count) if samples else b"")
        return 0

    def set_voice(self, name: str) -> None:
        """Speak in a voice from now on."""
        if self.library.espeak_SetVoiceByName(name.encode()):
            raise OSError(f"eSpeak NG cannot read its data in {self.folder}; a shorter TMPDIR may help")

    def speak(self, text: str, voice: Voice) -> Tensor:
        """Synthesize a text, trimmed to its first and last sound: int16 (N,) at 16 kHz.

        Phonemes in eSpeak's notation are spoken as well: `[[s|t|'0|p]]`.
        """
        encoded = text.encode()
        self.sound.clear()
        self.set_voice(f"{voice.language}+{voice.variant}")
        for parameter, value in enumerate((voice.rate_wpm, VOLUME, voice.pitch, voice.pitch_range), start=1):
            self.library.espeak_SetParameter(parameter, value, 0)
        self.library.espeak_Synth(encoded, ctypes.c_size_t(len(encoded) + 1), 0, 0, 0, UTF8 | PHONEMES, None, None)
        if not any(self.sound):
            raise InputError(f"eSpeak NG cannot pronounce {text!r}")
        return trim(resample(torch.frombuffer(bytearray(self.sound), dtype=torch.int16)))

    def phonemes(self, texts: Sequence[str], language: str, *, ipa: bool = False) -> list[str]:
        """The phonemes of each text in an accent, in eSpeak's ASCII notation, separated by `_`: `s_t_'0_p`.

        Words of a text are separated by spaces. A text with nothing to pronounce has no phonemes. Where eSpeak reads a
        word by another language, its code is in parentheses. With `ipa` they are in IPA, not separated: `stˈɑːp`.
        """
        mode = IPA if ipa else ord("_") << 8
        self.set_voice(language)
        translate = self.library.espeak_TextToPhonemes
        translate.restype = ctypes.c_char_p
        translate.argtypes = ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int
        found = []
        for text in texts:
            buffer = ctypes.create_string_buffer(text.encode())
            rest, clauses = ctypes.c_void_p(ctypes.addressof(buffer)), []
            while rest.value:  # eSpeak sets it to the next clause, and to null at the end
                clauses.append(translate(ctypes.byref(rest), UTF8, mode).decode())
            found.append(" ".join(filter(None, clauses)))
        return found


def synthesize(texts: Sequence[str], voices: Sequence[Voice], language: str = "en") -> list[Tensor]:
    """Synthesize each text with its voice: int16 (N,) each. Starting eSpeak costs as much as about a dozen words."""
    with Synthesizer(language) as synthesizer:
        return [synthesizer.speak(text, voice) for text, voice in zip(texts, voices, strict=True)]


@functools.cache
def voices_of(split: str, language: str = "en") -> tuple[tuple[str, str], ...]:
    """The (accent, variant) pairs of a split. Variants with the same formants are in the same split."""
    speakers = [variant for variant in variants() if split_of(variant) == split]
    return tuple(itertools.product(accents(language), speakers))


def draw_voice(split: str, generator: torch.Generator, language: str = "en") -> Voice:
    """Draw one of the split's voices, with a rate and pitch in the range of human speech."""

    def uniform(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    voices = voices_of(split, language)
    accent, variant = voices[uniform(0, len(voices) - 1)]
    return Voice(accent, variant, rate_wpm=uniform(90, 190), pitch=uniform(35, 75), pitch_range=uniform(20, 80))


def espeak_paths() -> tuple[Path, Path]:
    """The paths of eSpeak's library and of its data."""
    try:
        import espeakng_loader
    except ImportError:
        raise MissingExtraError("synthesized speech needs the extra `spoken`: pip install vitspeech[spoken]") from None
    return Path(espeakng_loader.get_library_path()), Path(espeakng_loader.get_data_path())


@functools.cache
def voice_files() -> dict[str, Path]:
    """eSpeak's accents of all languages, and their files. British English is `en-gb`."""
    files = sorted(file for file in (espeak_paths()[1] / "lang").rglob("*") if file.is_file())
    return {"en-gb" if file.name == "en" else file.name.lower(): file for file in files}


def accents(language: str) -> tuple[str, ...]:
    """The accents of a language, such as `en` or `de`; of an accent, such as `en-us`, those that begin with it."""
    known = ACCENTS if is_english(language) else tuple(name for name in voice_files() if "-latn" not in name)
    found = tuple(name for name in known if is_within(name, language))
    return found or (named(sorted({"en", *voice_files()}), "language", language),)


def is_english(language: str) -> bool:
    """Whether a language is English or an accent of it."""
    return is_within(language, "en")


def is_within(accent: str, language: str) -> bool:
    """Whether an accent is a language's: `en-us` is within `en`."""
    return f"{accent}-".startswith(f"{language}-")


@functools.cache
def variants() -> tuple[str, ...]:
    """The names of eSpeak's variants, without the excluded ones."""
    names = (file.name for file in (espeak_paths()[1] / "voices" / "!v").iterdir())
    return tuple(sorted(name for name in names if not EXCLUDED_VARIANTS.fullmatch(name)))


def split_of(variant: str) -> str:
    """The split of a variant, by a hash of its formant frequencies: the same for variants with the same formants."""
    frequencies = ["100"] * 9
    text = (espeak_paths()[1] / "voices" / "!v" / variant).read_text(encoding="utf-8", errors="replace")
    for words in map(str.split, text.splitlines()):
        if words[:1] == ["formant"]:
            frequencies[int(words[1])] = words[2]
    bucket = int(hashlib.blake2b(" ".join(frequencies[:6]).encode()).hexdigest(), 16) % 100
    edges = zip(SPLITS, itertools.accumulate(SPLITS.values()), strict=True)
    return next(split for split, edge in edges if bucket < edge)


def resample(sound: Tensor, rate_hz: int = ESPEAK_RATE_HZ) -> Tensor:
    """Resample int16 (N,) to 16 kHz with NumPy's FFT, which took half of PyTorch's time here."""
    common = math.gcd(SAMPLE_RATE_HZ, rate_hz)
    old, new = rate_hz // common, SAMPLE_RATE_HZ // common
    # Padding with silence keeps ringing at the end from wrapping around to the start; multiples of 8 are fast.
    blocks = 8 * math.ceil((len(sound) / old + 1) / 8)
    spectrum = numpy.fft.rfft(sound.numpy().astype(numpy.float64), old * blocks)[: new * blocks // 2 + 1]
    wave = numpy.fft.irfft(spectrum, new * blocks)[: math.ceil(len(sound) * new / old)] * (new / old)
    return torch.from_numpy(wave.round().clip(-32768, 32767).astype(numpy.int16))


def trim(sound: Tensor, silence: float = SILENCE) -> Tensor:
    """Trim int16 (N,) to the first and last sample whose level exceeds `silence`, a fraction of the peak."""
    level = sound.int().abs()
    loud = (level > silence * level.max()).nonzero()
    return sound[loud[0, 0] : loud[-1, 0] + 1].clone()
