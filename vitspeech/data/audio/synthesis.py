"""Words spoken by eSpeak NG, through its C interface: any vocabulary, many voices.

A voice is an English accent in one of eSpeak's variants, a throat of its own, at a rate and a pitch. The same texts in
the same order give the same samples, whatever was spoken before. To that end every `Synthesizer` loads the library
afresh: its flutter, roughness and gain control go on from where they stood, and nothing else sets them back.

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

SAMPLE_RATE_HZ = 16_000
ESPEAK_RATE_HZ = 22_050
SILENCE = 0.005  # of the loudest sample: what stays below is cut off at either end
VOLUME = 60  # of 100, at which a third of the variants clip
SPLITS = {"train": 70, "validation": 15, "test": 15}  # per cent of the throats
ACCENTS = ("en-029", "en-gb", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-gb-x-rp", "en-us", "en-us-nyc")
# Reed and caleb never sound the same twice, `fast` is no voice and Marco drawls; the rest whisper, or are robots.
LEFT_OUT = re.compile("Reed|caleb|fast|Marco|whisperf?|Demonic|.*Robot|RicishayMax.?|robosoft.?")
SYNCHRONOUS, DO_NOT_EXIT, UTF8 = 2, 0x8000, 1  # of speak_lib.h, as are the callback and the order of the parameters
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


@dataclass(frozen=True)
class Voice:
    """Who speaks, how fast and how high.

    Args:
        language: The accent: one of `ACCENTS`.
        variant: The throat: one of `variants()`.
        rate_wpm: Words a minute, 80 to 449.
        pitch: 0 to 99, from two thirds of the variant's own, which is 50, to seven quarters.
        pitch_range: 0 to 99, from monotonous to lively; 50 is the variant's own.

    Raises:
        ValueError: If the language or the variant is unknown, or a number is outside its range.
    """

    language: str = "en-us"
    variant: str = "m3"
    rate_wpm: int = 175
    pitch: int = 50
    pitch_range: int = 50

    def __post_init__(self) -> None:
        for name, known in (("language", ACCENTS), ("variant", variants())):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} {getattr(self, name)!r} is unknown; known: {', '.join(known)}")
        for name, low, high in (("rate_wpm", 80, 449), ("pitch", 0, 99), ("pitch_range", 0, 99)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name}={getattr(self, name)} is not within {low} to {high}")


class Synthesizer:
    """eSpeak NG, to be used in a `with`: there it has a folder with a copy of the library that nobody else loads.

    Raises:
        ImportError: If `espeakng_loader` is not installed.
    """

    def __enter__(self) -> Self:
        library, data = installed()
        self.temporary = tempfile.TemporaryDirectory(prefix="espeak")
        self.folder = Path(self.temporary.name)
        for name in ("phondata", "phonindex", "phontab", "intonations", "en_dict", "voices"):
            (self.folder / name).symlink_to(data / name)
        # Under its own name eSpeak opens an accent at once; else it first reads every voice it has, for every text.
        (self.folder / "lang").mkdir()
        for file in (data / "lang" / "gmw").glob("en*"):
            (self.folder / "lang" / ("en-gb" if file.name == "en" else file.name.lower())).symlink_to(file)
        self.sound, self.receiver = bytearray(), CALLBACK(self.receive)  # eSpeak holds the callback, and so must we
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
        """Take what eSpeak has made; 0 asks for more."""
        self.sound.extend(ctypes.string_at(samples, 2 * count) if samples else b"")
        return 0

    def speak(self, text: str, voice: Voice) -> Tensor:
        """The text from its first sound to its last: int16 (N,) at 16 kHz.

        Raises:
            ValueError: If nothing in the text can be said.
            OSError: If eSpeak cannot read its data.
        """
        encoded = text.encode()
        self.sound.clear()
        if self.library.espeak_SetVoiceByName(f"{voice.language}+{voice.variant}".encode()):
            raise OSError(f"eSpeak NG cannot read its data in {self.folder}; a shorter TMPDIR may help")
        for parameter, value in enumerate((voice.rate_wpm, VOLUME, voice.pitch, voice.pitch_range), start=1):
            self.library.espeak_SetParameter(parameter, value, 0)
        self.library.espeak_Synth(encoded, ctypes.c_size_t(len(encoded) + 1), 0, 0, 0, UTF8, None, None)
        if not any(self.sound):
            raise ValueError(f"eSpeak NG says nothing for {text!r}")
        return trimmed(resampled(torch.frombuffer(bytearray(self.sound), dtype=torch.int16)))


def spoken(texts: Sequence[str], voices: Sequence[Voice]) -> list[Tensor]:
    """Each text by the voice beside it, as from one `Synthesizer`; making that costs as much as some dozen words."""
    with Synthesizer() as synthesizer:
        return [synthesizer.speak(text, voice) for text, voice in zip(texts, voices, strict=True)]


@functools.cache
def voices_of(split: str) -> tuple[tuple[str, str], ...]:
    """The (language, variant) pairs of a split. A variant, with all that share its formants, is in one split only."""
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is unknown; known: {', '.join(SPLITS)}")
    throats = [variant for variant in variants() if split_of(variant) == split]
    return tuple(itertools.product(ACCENTS, throats))


def draw_voice(split: str, generator: torch.Generator) -> Voice:
    """One of the split's voices, at a rate and a pitch that people have."""

    def uniform(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    language, variant = voices_of(split)[uniform(0, len(voices_of(split)) - 1)]
    return Voice(language, variant, rate_wpm=uniform(90, 190), pitch=uniform(35, 75), pitch_range=uniform(20, 80))


def installed() -> tuple[Path, Path]:
    """Where eSpeak's library and its data are."""
    try:
        import espeakng_loader
    except ImportError:
        raise ImportError("synthesized speech needs the extra `spoken`: pip install vitspeech[spoken]") from None
    return Path(espeakng_loader.get_library_path()), Path(espeakng_loader.get_data_path())


@functools.cache
def variants() -> tuple[str, ...]:
    """eSpeak's variants by name, without those left out."""
    names = (file.name for file in (installed()[1] / "voices" / "!v").iterdir())
    return tuple(sorted(name for name in names if not LEFT_OUT.fullmatch(name)))


def split_of(variant: str) -> str:
    """A hash of the formants' frequencies decides, so that two variants of the same formants stay together."""
    frequencies = ["100"] * 9
    text = (installed()[1] / "voices" / "!v" / variant).read_text(encoding="utf-8", errors="replace")
    for words in map(str.split, text.splitlines()):
        if words[:1] == ["formant"]:
            frequencies[int(words[1])] = words[2]
    draw = int(hashlib.blake2b(" ".join(frequencies[:6]).encode()).hexdigest(), 16) % 100
    edges = zip(SPLITS, itertools.accumulate(SPLITS.values()), strict=True)
    return next(split for split, edge in edges if draw < edge)


def resampled(sound: Tensor) -> Tensor:
    """int16 (N,) at eSpeak's rate -> int16 at ours, by NumPy's Fourier transform: half of PyTorch's time, here."""
    common = math.gcd(SAMPLE_RATE_HZ, ESPEAK_RATE_HZ)
    old, new = ESPEAK_RATE_HZ // common, SAMPLE_RATE_HZ // common
    # Silence past the end keeps what rings there from the start; a multiple of eight keeps the transform fast.
    blocks = 8 * math.ceil((len(sound) / old + 1) / 8)
    spectrum = numpy.fft.rfft(sound.numpy().astype(numpy.float64), old * blocks)[: new * blocks // 2 + 1]
    wave = numpy.fft.irfft(spectrum, new * blocks)[: math.ceil(len(sound) * new / old)] * (new / old)
    return torch.from_numpy(wave.round().clip(-32768, 32767).astype(numpy.int16))


def trimmed(sound: Tensor) -> Tensor:
    """From the first sample above `SILENCE` to the last: int16 (N,) -> int16 (N,), shorter."""
    level = sound.int().abs()
    heard = (level > SILENCE * level.max()).nonzero()
    return sound[heard[0, 0] : heard[-1, 0] + 1].clone()
