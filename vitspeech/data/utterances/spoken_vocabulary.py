"""Synthesized words for character recognition: a thousand for training, others for validation and test.

Validation and test have neither words nor voices of training. As with `SpokenWords`, results show that a model learns,
not how well it recognizes people.
"""

import torch
from torch import Tensor

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.audio.vocabulary import SPLITS, vocabulary
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.silence import noise_part
from vitspeech.data.clips.spoken_words import split_generator, synthesize_clips
from vitspeech.data.utterances.word_clips import WordClip, WordSource
from vitspeech.errors import InputError


class SpokenVocabulary(WordSource):
    """The words of `vocabulary`, synthesized by eSpeak NG in many voices, rates and pitches.

    Training has 1,000 words, validation and test 100 others each, in voices of their own. A split repeats its list of
    words, each time in a new random order, so the numbers of clips per word differ by at most one. Needs the extra
    `spoken`.

    Args:
        count: Number of training clips; validation and test have a tenth of it each.
        drawn_from: Seed of the synthesized clips, independent of the run's seed.

    Raises:
        MissingExtraError: If clips are synthesized and the extra `spoken` is not installed.
        InputError: If `count` is below 1000, the number of training words.
    """

    def __init__(self, count: int = 10_000, *, drawn_from: int = 0) -> None:
        if count < SPLITS["train"]:
            raise InputError(f"count={count} is below {SPLITS['train']}, one clip per word")
        self.count, self.drawn_from = count, drawn_from
        self.words = [word for split in SPLITS for word in vocabulary(split)]

    def word_clips(self, split: str) -> list[WordClip]:
        """The split's clips, from the first sound to the last; the speaker is the voice."""
        generator = split_generator(split, self.drawn_from)
        words, count = vocabulary(split), self.count if split == "train" else self.count // 10
        rounds = [torch.randperm(len(words), generator=generator) for _ in range(-(-count // len(words)))]
        indices = torch.cat(rounds)[:count].tolist()
        return synthesize_clips([words[index] for index in indices], split, generator)

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        return {"hiss": noise_part(pink_noise(SAMPLE_RATE_HZ), split)}
