"""Synthesized words for character recognition: up to five thousand for training, others for validation and test.

Validation and test have neither words nor voices of training. As with `SpokenWords`, results show that a model learns,
not how well it recognizes people.
"""

import torch
from torch import Tensor

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.audio.vocabulary import SPLITS, further_words, vocabulary
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.silence import noise_part
from vitspeech.data.clips.spoken_words import split_generator, synthesize_clips
from vitspeech.data.utterances.word_clips import WordClip, WordSource
from vitspeech.errors import MOST_SEED, check_number


class SpokenVocabulary(WordSource):
    """The words of `vocabulary`, synthesized by eSpeak NG in many voices, rates and pitches.

    Training has 1,000 to 5,000 words, validation and test 100 others each, in voices of their own. A split repeats its
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
        check_number("train_words", train_words, SPLITS["train"], SPLITS["train"] + len(further_words()))
        check_number("count", count, train_words)  # one clip per word
        held_out = count // 10 if held_out is None else held_out
        check_number("held_out", held_out, SPLITS["test"])
        check_number("drawn_from", drawn_from, 0, MOST_SEED)
        self.counts = {"train": count, "validation": held_out, "test": held_out}
        self.drawn_from = drawn_from
        further = further_words()[: train_words - SPLITS["train"]]
        self.split_words = {split: vocabulary(split) for split in SPLITS} | {"train": (*vocabulary("train"), *further)}
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
