"""Synthesized words: speech data sets that need no files, with any vocabulary or with one of 5,200 words.

Training, validation and test clips are spoken by different synthetic voices. Results on it show that a model learns,
not how well it recognizes people.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import soundfile
import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, fit_length
from vitspeech.data.audio.synthesis import SPLITS, Synthesizer, Voice, draw_voice
from vitspeech.data.audio.vocabulary import SPLITS as LISTED
from vitspeech.data.audio.vocabulary import further_words, vocabulary
from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.silence import SILENCE, UNKNOWN, different_words, noise_part, shares_of
from vitspeech.data.utterances.word_clips import WordClip, WordSource
from vitspeech.errors import MOST_SEED, check_number

WORDS = ("yes", "no", "up", "down", "left", "right", "stop", "go")
OTHERS = (
    "apple bread cloud door engine finger garden house iron jacket kitchen ladder morning number orange paper question "
    "river summer table uncle village window yellow zebra because people water seven under along".split()
)


class SpokenWords(WaveformData, WordSource):
    """One-second clips of single words, synthesized by eSpeak NG in many voices, rates and pitches.

    Needs the extra `spoken`.

    Args:
        words: Labels: any words that eSpeak can pronounce in English.
        count: Number of training clips of words; validation and test have a fifth of it each.
        unknown: Number of clips labeled `unknown` per clip of a word, of words that are not in `words`; 0 omits the
            label.
        silence: Number of clips labeled `silence` per clip of a word: pink noise, from inaudible to loud, which each
            split has its own part of; in training new noise in every batch, as in `SpeechCommands`. 0 omits the label.
        drawn_from: Seed of the synthesized clips, independent of the run's seed.
        **options: Those of `WaveformData`: `batch`, `augment` and `seed`.
    """

    def __init__(
        self,
        words: Sequence[str] = WORDS,
        *,
        count: int = 4000,
        unknown: float = 0.1,
        silence: float = 0.1,
        drawn_from: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(seconds=1.0, **options)
        self.words, self.extra_ratios = different_words(words), shares_of(unknown, silence)
        check_number("count", count, 50)
        check_number("drawn_from", drawn_from, 0, MOST_SEED)
        self.count, self.drawn_from = count, drawn_from
        self.labels, self.makes_silence = [*self.words, *self.extra_ratios], SILENCE in self.extra_ratios

    def prepare_test(self) -> None:
        """Nothing: the test clips are synthesized like those of training."""

    def read(self, split: str) -> Dataset:
        generator = split_generator(split, self.drawn_from)
        labels = self.draw_labels(split, generator)
        texts, word_count = [self.words[label] for label in labels], len(labels)
        others = [word for word in OTHERS if word not in self.words]
        unknown_count, silence_count = (
            round(self.extra_ratios.get(label, 0) * word_count) for label in (UNKNOWN, SILENCE)
        )
        for index in torch.randint(0, len(others), (unknown_count,), generator=generator).tolist():
            labels.append(self.labels.index(UNKNOWN))
            texts.append(others[index])
        voices, sounds = zip(*synthesize_split(texts, split, generator), strict=True)
        words = torch.stack([fit_length(sound, self.samples) for sound in sounds])
        clips = torch.cat((words, noise_clips(silence_count, self.samples, split, generator)))
        speakers = [speaker(voice) for voice in voices] + ["hiss"] * silence_count
        return TensorItems(clips, torch.tensor(labels + [len(self.labels) - 1] * silence_count), speakers)

    def draw_labels(self, split: str, generator: torch.Generator) -> list[int]:
        """Draw the word of each word clip of the split, as an index of `words`."""
        count = self.count if split == "train" else self.count // 5
        return torch.randint(0, len(self.words), (count,), generator=generator).tolist()

    def word_clips(self, split: str) -> list[WordClip]:
        """The split's clips of `words`, from the first sound to the last; the speaker is the voice."""
        generator = split_generator(split, self.drawn_from)
        return synthesize_clips([self.words[label] for label in self.draw_labels(split, generator)], split, generator)

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        return {"hiss": noise_part(self.noise, split)}


class SpokenVocabulary(WordSource):
    """The words of `vocabulary`, synthesized by eSpeak NG in many voices, rates and pitches.

    Training has 1,000 to 5,000 words, validation and test 100 others each, in voices of their own: for recognition of
    characters in words that are not in training. A split repeats its
    list of words, each time in a new random order, so the numbers of clips per word differ by at most one. Needs the
    extra `spoken`.

    Args:
        count: Number of training clips.
        held_out: Number of validation clips, and of test clips; `None` is a tenth of `count`.
        train_words: Number of training words: the 1,000 of `vocabulary`, then those of `further_words`.
        drawn_from: Seed of the synthesized clips, independent of the run's seed.
    """

    def __init__(
        self, count: int = 10_000, *, held_out: int | None = None, train_words: int = 1000, drawn_from: int = 0
    ) -> None:
        check_number("train_words", train_words, LISTED["train"], LISTED["train"] + len(further_words()))
        check_number("count", count, train_words)  # one clip per word
        held_out = count // 10 if held_out is None else held_out
        check_number("held_out", held_out, LISTED["test"])
        check_number("drawn_from", drawn_from, 0, MOST_SEED)
        self.counts = {"train": count, "validation": held_out, "test": held_out}
        self.drawn_from = drawn_from
        further = further_words()[: train_words - LISTED["train"]]
        self.split_words = {split: vocabulary(split) for split in LISTED} | {"train": (*vocabulary("train"), *further)}
        self.words = [word for words in self.split_words.values() for word in words]

    def word_clips(self, split: str) -> list[WordClip]:
        """The split's clips, from the first sound to the last; the speaker is the voice."""
        generator = split_generator(split, self.drawn_from)
        words, count = self.split_words[split], self.counts[split]
        rounds = [torch.randperm(len(words), generator=generator) for _ in range(-(-count // len(words)))]
        indices = torch.cat(rounds)[:count].tolist()
        return synthesize_clips([words[index] for index in indices], split, generator)

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        return {"hiss": noise_part(pink_noise(SAMPLE_RATE_HZ), split)}


def split_generator(split: str, drawn_from: int) -> torch.Generator:
    """The random generator of a split's clips; each seed and split has its own."""
    return torch.Generator().manual_seed(drawn_from * len(SPLITS) + list(SPLITS).index(split))


def synthesize_split(
    texts: Sequence[str], split: str, generator: torch.Generator, language: str = "en"
) -> list[tuple[Voice, Tensor]]:
    """Synthesize each text by a random voice of the split: (voice, int16 (N,)), of variable length."""
    voices_and_sounds = []
    with Synthesizer(language) as synthesizer:
        for text in tqdm(texts, desc=f"speaking {split}", leave=False, disable=None):
            voice = draw_voice(split, generator, language)
            voices_and_sounds.append((voice, synthesizer.speak(text, voice)))
    return voices_and_sounds


def synthesize_clips(texts: Sequence[str], split: str, generator: torch.Generator) -> list[WordClip]:
    """Synthesize texts as word clips, each named by its text and its index."""
    voices_and_sounds = synthesize_split(texts, split, generator)
    return [
        WordClip(f"{text}/{index}", text, speaker(voice), sound.numpy(), 0, len(sound))
        for index, (text, (voice, sound)) in enumerate(zip(texts, voices_and_sounds, strict=True))
    ]


def speaker(voice: Voice) -> str:
    """The name of the speaker of a voice: its accent and variant, whatever its rate and pitch."""
    return f"{voice.language}+{voice.variant}"


def noise_clips(count: int, samples: int, split: str, generator: torch.Generator) -> Tensor:
    """Cut clips of the split's part of pink noise, from inaudible to loud: int16 (count, samples)."""
    noise = noise_part(pink_noise(10 * samples), split)  # validation and test have ten clips' length each
    starts = torch.randint(0, len(noise) - samples + 1, (count, 1), generator=generator)
    loudness = 10 ** (-2 * torch.rand(count, 1, generator=generator)) * torch.rand(count, 1, generator=generator)
    return (noise[starts + torch.arange(samples)] * loudness).round().to(torch.int16)


def save_example(path: str | Path, words: Sequence[str] = ("left", "stop", "go"), pause_s: float = 0.8) -> None:
    """Write a WAV of words with a pause before and after each, in a voice that no training clip has."""
    voice = draw_voice("test", torch.Generator().manual_seed(7))
    pause = torch.zeros(round(pause_s * SAMPLE_RATE_HZ), dtype=torch.int16)
    with Synthesizer() as synthesizer:
        sounds = [part for word in words for part in (pause, synthesizer.speak(word, voice))]
    soundfile.write(path, torch.cat([*sounds, pause]).numpy(), SAMPLE_RATE_HZ)
