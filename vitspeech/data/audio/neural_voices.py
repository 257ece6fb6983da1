"""Speech synthesis by networks of the user's own: Piper voices and Kokoro-82M, by ONNX Runtime.

Piper is VITS (Kim et al. 2021, arXiv:2106.06103), Kokoro StyleTTS 2 (Li et al. 2023, arXiv:2306.07691). Both read the
phonemes of eSpeak NG in IPA. The same texts in the same order give the same samples on the same machine.

Shapes: N samples.
"""

import hashlib
import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor
from tqdm import tqdm

from vitspeech.data.audio.synthesis import SPLITS, Synthesizer, is_within, resample, trim
from vitspeech.errors import InputError, MissingExtraError

COPIES = 4  # an utterance is heard at so many speeds: a network takes up to a second for one
SPEEDS = 0.8, 1.25  # of the network, and again of each copy, whose pitch changes with it
SILENCE = 0.02  # fraction of the peak: quieter samples are trimmed at both ends; networks breathe there
SEED = 1  # of ONNX Runtime's noise
KOKORO_RATE_HZ = 24_000
# Kokoro's accents by the first letter of a voice. Its Chinese and Japanese need phonemes that eSpeak does not have.
KOKORO_ACCENTS = {"a": "en-us", "b": "en-gb", "e": "es", "f": "fr", "h": "hi", "i": "it", "p": "pt-br"}
KOKORO_SIGNS = {"dʒ": "ʤ", "tʃ": "ʧ", "eɪ": "A", "aɪ": "I", "aʊ": "W", "ɔɪ": "Y", "oʊ": "O", "əʊ": "Q"}  # as in misaki
KOKORO_AMERICAN = {"ɜː": "ɜɹ", "ɚ": "əɹ", "ɐ": "ə", "ɾ": "T", "ː": ""}  # the same, of American English


class Model:
    """A network that speaks, and the accent of each of its speakers."""

    further_accents: tuple[str, ...] = ()  # that any of its speakers can speak

    def __init__(self, file: Path, rate_hz: int, symbols: dict[str, Sequence[int]], speakers: dict[str, str]) -> None:
        self.file, self.rate_hz, self.symbols, self.speakers = file, rate_hz, symbols, speakers
        self.session: Any = None

    def load(self) -> None:
        """Load the network anew, with its noise from the start."""
        try:
            import onnxruntime
        except ImportError:
            message = "neural voices need the extra `voices`: pip install vitspeech[voices]"
            raise MissingExtraError(message) from None
        onnxruntime.set_seed(SEED)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        try:
            self.session = onnxruntime.InferenceSession(str(self.file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its classes have no common one but this
            raise InputError(f"{self.file}: the voice cannot be read: {str(error).splitlines()[0]}") from None

    def numbers(self, ipa: str) -> list[list[int]]:
        """The numbers of each phoneme; marks that the network does not know are left out."""
        if unknown := sorted({sign for sign in ipa if sign not in self.symbols and is_letter(sign)}):
            raise InputError(f"{self.file}: the voice has no {' or '.join(unknown)} (in IPA)")
        return [list(self.symbols[sign]) for sign in ipa if sign in self.symbols]

    def inputs(self, ipa: str, speaker: str, others: Sequence[str], generator: torch.Generator) -> dict[str, Any]:
        """The network's inputs that speak phonemes at a random speed, by a speaker and perhaps some of others."""
        raise NotImplementedError

    def speak(self, *arguments: Any) -> Tensor:
        """Speak phonemes: int16 (N,) at `rate_hz`, trimmed. The arguments are those of `inputs`."""
        if self.session is None:
            self.load()
        known = [one.name for one in self.session.get_inputs()]
        inputs = {name: value for name, value in self.inputs(*arguments).items() if name in known}
        try:
            sound = torch.from_numpy(self.session.run(None, inputs)[0]).flatten()
        except Exception as error:
            raise InputError(f"{self.file}: this is no Piper voice or Kokoro: {str(error).splitlines()[0]}") from None
        if not sound.any():
            raise InputError(f"{self.file}: the voice says nothing but silence")
        return trim((sound * 32767).round().clamp(-32768, 32767).to(torch.int16), SILENCE)


class Piper(Model):
    """A Piper voice: `NAME.onnx` with `NAME.onnx.json`; it may have many speakers."""

    def __init__(self, file: Path) -> None:
        config = read_json(Path(f"{file}.json"))
        try:
            if config.get("phoneme_type", "espeak") != "espeak":
                raise InputError(f"{file}.json: phoneme_type is {config['phoneme_type']!r}, not eSpeak's")
            count, accent = config.get("num_speakers", 1), config["espeak"]["voice"].lower()
            names = [file.stem] if count == 1 else [f"{file.stem}+{number}" for number in range(count)]
            scales = config.get("inference", {})
            self.scales = scales.get("noise_scale", 0.667), scales.get("noise_w", 0.8)
            rate_hz, symbols = config["audio"]["sample_rate"], config["phoneme_id_map"]
        except KeyError as error:
            raise InputError(f"{file}.json: it has no {error}, so it is no Piper voice") from None
        super().__init__(file, rate_hz, symbols, dict.fromkeys(names, accent))

    def inputs(self, ipa: str, speaker: str, others: Sequence[str], generator: torch.Generator) -> dict[str, Any]:
        start, pad, end = (list(self.symbols[sign]) for sign in "^_$")
        parts = self.numbers(unicodedata.normalize("NFD", ipa) + ".")
        numbers = [*start, *pad, *(number for part in parts for number in (*part, *pad)), *end]
        noise, noise_of_lengths = self.scales
        return {
            "input": numpy.array([numbers], numpy.int64),
            "input_lengths": numpy.array([len(numbers)], numpy.int64),
            "scales": numpy.array([noise, 1 / uniform(*SPEEDS, generator), noise_of_lengths], numpy.float32),
            "sid": numpy.array([list(self.speakers).index(speaker)], numpy.int64),
        }


class Kokoro(Model):
    """Kokoro-82M: `*.onnx`, styles of its voices in `*.npz` or `voices*.bin`, and `config.json` with `vocab`.

    An utterance is in a random mixture of the styles of two voices.
    """

    further_accents = tuple(KOKORO_ACCENTS.values())

    def __init__(self, file: Path) -> None:
        found = [*sorted(file.parent.glob("*.npz")), *sorted(file.parent.glob("voices*.bin"))]
        if not found:
            raise InputError(f"{file.parent}: {file.name} needs {file.name}.json (Piper), or voices-v1.0.bin (Kokoro)")
        vocabulary = read_json(file.parent / "config.json").get("vocab")
        if not vocabulary:
            raise InputError(f"{file.parent / 'config.json'}: it has no `vocab`; take the file of Kokoro-82M")
        try:
            with numpy.load(found[0]) as styles:  # no pickles
                self.styles = {name: styles[name].reshape(-1, 256).astype(numpy.float32) for name in styles}
        except (OSError, ValueError, AttributeError, TypeError, EOFError) as error:
            raise InputError(f"{found[0]}: these are no styles of Kokoro ({error})") from None
        speakers = {name: KOKORO_ACCENTS.get(name[0], "") for name in self.styles}
        super().__init__(file, KOKORO_RATE_HZ, {sign: [number] for sign, number in vocabulary.items()}, speakers)

    def inputs(self, ipa: str, speaker: str, others: Sequence[str], generator: torch.Generator) -> dict[str, Any]:
        for spoken, sign in (KOKORO_SIGNS | (KOKORO_AMERICAN if self.speakers[speaker] == "en-us" else {})).items():
            ipa = ipa.replace(spoken, sign)
        numbers = [number for part in self.numbers(ipa) for number in part]
        other = others[int(torch.randint(len(others), (), generator=generator))]
        row, share = min(len(numbers), len(self.styles[speaker]) - 1), uniform(0, 0.5, generator)
        tokens = numpy.array([[0, *numbers, 0]], numpy.int64)
        return {
            "tokens": tokens,
            "input_ids": tokens,  # the name in other exports
            "style": ((1 - share) * self.styles[speaker][row] + share * self.styles[other][row])[None],
            "speed": numpy.array([uniform(*SPEEDS, generator)], numpy.float32),
        }


class NeuralVoices:
    """The voices of a folder that speak a language.

    Args:
        folder: Piper voices, each `NAME.onnx` with `NAME.onnx.json`, or Kokoro-82M: `*.onnx`, `voices*.bin` or `*.npz`
            with the styles of voices, and `config.json` with `vocab`. If none of Kokoro's voices is of the language,
            but the network speaks it, all of them speak it, with their accents.
        language: As in `vitspeech.data.audio.synthesis.accents`.
    """

    def __init__(self, folder: str | Path, language: str = "en") -> None:
        self.folder, self.language = Path(folder), language
        files = sorted(self.folder.glob("*.onnx"))
        if not files:
            raise InputError(f"{folder}: the folder has no voice (*.onnx)")
        models = [Piper(file) if Path(f"{file}.json").exists() else Kokoro(file) for file in files]
        spoken = {accent for model in models for accent in (*model.speakers.values(), *model.further_accents)}
        self.models: dict[str, Model] = {}  # of each speaker
        for model in models:
            speakers = [name for name, accent in model.speakers.items() if is_within(accent, language)]
            further = [accent for accent in model.further_accents if is_within(accent, language)]
            if further and not speakers:
                speakers = list(model.speakers)
                model.speakers = dict.fromkeys(speakers, further[0])
            self.models |= dict.fromkeys(speakers, model)
        if not self.models:
            raise InputError(f"{folder}: no voice speaks {language!r}; they speak {', '.join(sorted(spoken - {''}))}")

    def speakers(self, split: str) -> list[str]:
        """The speakers of a split, by a hash of their names. Validation and test have 15 % of them each, at least one.

        Fewer than three speakers are all in training.
        """
        names = sorted(self.models, key=lambda name: hashlib.blake2b(name.encode()).digest())
        held = max(round(len(names) * SPLITS["test"] / 100), 1) if len(names) > 2 else 0
        start = {"validation": 0, "test": held, "train": 2 * held}[split]
        return names[start:] if split == "train" else names[start : start + held]

    def check(self, words: Sequence[str]) -> None:
        """Check that every network can be loaded and speaks, and that every voice can say the words."""
        generator = torch.Generator().manual_seed(0)
        ipa = self.phonemes(words)
        for model, speakers in self.by_model(list(self.models)).items():
            for word in words:
                for speaker in speakers:
                    model.inputs(ipa[word, model.speakers[speaker]], speaker, speakers, generator)
            model.speak(ipa[words[0], model.speakers[speakers[0]]], speakers[0], speakers, generator)
            model.session = None

    def synthesize(self, texts: Sequence[str], split: str, generator: torch.Generator) -> list[tuple[str, Tensor]]:
        """Synthesize each text by random voices of the split: (speaker, int16 (N,) at 16 kHz).

        A quarter of each text's sounds are spoken; each is resampled to four random speeds.
        """
        ipa, speakers = self.phonemes(texts), self.speakers(split)
        counts, seen = Counter(texts), Counter[str]()
        said: dict[str, list[tuple[str, Tensor]]] = defaultdict(list)
        others = self.by_model(speakers)
        sounds = []
        for text in tqdm(texts, desc=f"speaking {split}", leave=False, disable=None):
            utterances = math.ceil(counts[text] / COPIES)
            if len(said[text]) < utterances:
                speaker = speakers[int(torch.randint(len(speakers), (), generator=generator))]
                model = self.models[speaker]
                arguments = ipa[text, model.speakers[speaker]], speaker, others[model], generator
                said[text].append((speaker, model.speak(*arguments)))
            speaker, sound = said[text][seen[text] % utterances]
            seen[text] += 1
            # Rates with a large common divisor take short Fourier transforms.
            rate_hz = round(self.models[speaker].rate_hz * uniform(*SPEEDS, generator) / 100) * 100
            sounds.append((speaker, resample(sound, rate_hz)))
        return sounds

    def by_model(self, speakers: Sequence[str]) -> dict[Model, list[str]]:
        """The speakers of each network."""
        models: dict[Model, list[str]] = defaultdict(list)
        for speaker in speakers:
            models[self.models[speaker]].append(speaker)
        return models

    def phonemes(self, texts: Sequence[str]) -> dict[tuple[str, str], str]:
        """The phonemes in IPA of each text in each accent of the voices."""
        different, found = list(dict.fromkeys(texts)), {}
        with Synthesizer(self.language) as synthesizer:
            for accent in {model.speakers[name] for name, model in self.models.items()}:
                for text, ipa in zip(different, synthesizer.phonemes(different, accent, ipa=True), strict=True):
                    found[text, accent] = re.sub(r"\(.*?\)", "", ipa)  # changes of language
        return found


def uniform(low: float, high: float, generator: torch.Generator) -> float:
    """A random number within a range."""
    return low + (high - low) * float(torch.rand((), generator=generator))


def is_letter(sign: str) -> bool:
    """Whether a sign of IPA is a sound of its own, not a mark of length or stress."""
    return unicodedata.category(sign) in ("Ll", "Lo")


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON file that belongs to a voice."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: the voice needs this file, and it cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{file}: it is no JSON object")
    return content
