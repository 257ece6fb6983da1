"""A thousand words synthesized to train on, and others to test on: what hearing letter by letter is tried with.

Validation and test say words that training never says, by voices that training never has. As with `SpokenWords`, what
a model reaches here says that it learns, not how well it hears.
"""

import torch
from torch import Tensor

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.audio.vocabulary import SPLITS, vocabulary
from vitspeech.data.clips.module import hiss
from vitspeech.data.clips.speech_commands import part
from vitspeech.data.clips.spoken_words import generator_of, spoken_clips
from vitspeech.data.utterances.word_clips import WordClip, WordSource


class SpokenVocabulary(WordSource):
    """The words of `vocabulary`, spoken by eSpeak NG in many voices, rates and pitches (the extra `spoken`).

    Training says its 1,000 words, validation and test 100 others each, in voices of their own. A split says its whole
    list, in a drawn order, before it says any word again: every word as often as the others, or once more.

    Args:
        count: Training clips; validation and test have a tenth of it each.
        drawn_from: Seed of the clips; the same number gives the same clips.

    Raises:
        ImportError: If clips are asked for and the extra `spoken` is not installed.
        ValueError: If `count` is below 1000, a clip for each word.
    """

    def __init__(self, count: int = 10_000, *, drawn_from: int = 0) -> None:
        if count < SPLITS["train"]:
            raise ValueError(f"count={count} is below {SPLITS['train']}, a clip for each word")
        self.count, self.drawn_from = count, drawn_from
        self.words = [word for split in SPLITS for word in vocabulary(split)]

    def word_clips(self, split: str) -> list[WordClip]:
        """The split's clips, from the first sound to the last; the speaker is the voice."""
        generator = generator_of(split, self.drawn_from)
        words, count = vocabulary(split), self.count if split == "train" else self.count // 10
        rounds = [torch.randperm(len(words), generator=generator) for _ in range(-(-count // len(words)))]
        return spoken_clips([words[place] for place in torch.cat(rounds)[:count].tolist()], split, generator)

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        return {"hiss": part(hiss(SAMPLE_RATE_HZ), split)}
