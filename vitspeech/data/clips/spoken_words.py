"""Words synthesized on the spot: a set to try speech on, without a file and with any vocabulary.

Training, validation and test clips are spoken by different voices. It is no stand-in for people: what a model reaches
here says that it learns, not how well it hears.
"""

from collections.abc import Sequence
from pathlib import Path

import soundfile
import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ, fitted
from vitspeech.data.audio.synthesis import SPLITS, Synthesizer, Voice, draw_voice
from vitspeech.data.batches import Items
from vitspeech.data.clips.module import WaveformAugment, WaveformData, hiss
from vitspeech.data.clips.speech_commands import SILENCE, UNKNOWN, part
from vitspeech.data.utterances.word_clips import WordClip, WordSource

WORDS = ("yes", "no", "up", "down", "left", "right", "stop", "go")
OTHERS = (
    "apple bread cloud door engine finger garden house iron jacket kitchen ladder morning number orange paper question "
    "river summer table uncle village window yellow zebra because people water seven under along".split()
)


class SpokenWords(WaveformData, WordSource):
    """One-second clips of single words, spoken by eSpeak NG in many voices, rates and pitches (the extra `spoken`).

    Args:
        words: Labels: any vocabulary that eSpeak can say in English.
        count: Training clips of words; validation and test have a fifth of it each.
        unknown: Clips of the label `unknown` for each clip of a word, of words that are not in `words`; 0 leaves the
            label out.
        silence: Clips of the label `silence`, likewise: pink noise from inaudible to loud.
        drawn_from: Seed of the clips themselves; the same number gives the same clips.
        batch: Clips a training batch, on each device.
        augment: What happens to training clips; `None` is `WaveformAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ImportError: If the extra `spoken` is not installed.
        ValueError: If `words` are none, one is there twice or can't be said, `count` is below 50 or a share negative.
    """

    def __init__(
        self,
        words: Sequence[str] = WORDS,
        *,
        count: int = 4000,
        unknown: float = 0.1,
        silence: float = 0.1,
        drawn_from: int = 0,
        batch: int = 128,
        augment: WaveformAugment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seconds=1.0, batch=batch, augment=augment, seed=seed)
        self.words = list(words)
        if not self.words or len(set(self.words)) < len(self.words):
            raise ValueError(f"words={self.words}: none, or one is there twice")
        if count < 50 or unknown < 0 or silence < 0:
            raise ValueError(f"count={count} is below 50, or unknown={unknown} or silence={silence} is negative")
        self.count, self.drawn_from = count, drawn_from
        self.shares = {label: share for label, share in {UNKNOWN: unknown, SILENCE: silence}.items() if share}
        self.labels = [*self.words, *self.shares]

    def read(self, split: str) -> Dataset:
        generator = generator_of(split, self.drawn_from)
        labels = self.drawn(split, generator)
        texts, count = [self.words[label] for label in labels], len(labels)
        others = [word for word in OTHERS if word not in self.words]
        for place in torch.randint(0, len(others), (self.extra(UNKNOWN, count),), generator=generator).tolist():
            labels.append(self.labels.index(UNKNOWN))
            texts.append(others[place])
        silent = self.extra(SILENCE, count)
        words = torch.stack([fitted(sound, self.samples) for _, sound in spoken(texts, split, generator)])
        clips = torch.cat((words, noises(silent, self.samples, generator)))
        return Items(clips, torch.tensor(labels + [len(self.labels) - 1] * silent))

    def extra(self, label: str, count: int) -> int:
        """How many clips there are of a label that is no word."""
        return round(self.shares.get(label, 0) * count)

    def drawn(self, split: str, generator: torch.Generator) -> list[int]:
        """The word of each clip of the split that says one."""
        count = self.count if split == "train" else self.count // 5
        return torch.randint(0, len(self.words), (count,), generator=generator).tolist()

    def word_clips(self, split: str) -> list[WordClip]:
        """The split's clips of `words`, from the first sound to the last; the speaker is the voice."""
        generator = generator_of(split, self.drawn_from)
        return spoken_clips([self.words[label] for label in self.drawn(split, generator)], split, generator)

    def backgrounds(self, split: str) -> dict[str, Tensor]:
        return {"hiss": part(self.noise, split)}


def generator_of(split: str, drawn_from: int) -> torch.Generator:
    """What a split's clips are drawn by: one for each seed and split."""
    return torch.Generator().manual_seed(drawn_from * len(SPLITS) + list(SPLITS).index(split))


def spoken(texts: Sequence[str], split: str, generator: torch.Generator) -> list[tuple[Voice, Tensor]]:
    """Each text by a voice of the split that is drawn for it: int16 (N,), as long as it lasts."""
    said = []
    with Synthesizer() as synthesizer:
        for text in tqdm(texts, desc=f"speaking {split}", leave=False, disable=None):
            voice = draw_voice(split, generator)
            said.append((voice, synthesizer.speak(text, voice)))
    return said


def spoken_clips(texts: Sequence[str], split: str, generator: torch.Generator) -> list[WordClip]:
    """The texts as clips to put utterances together from, each named by its text and its place."""
    said = spoken(texts, split, generator)
    return [
        WordClip(f"{text}/{place}", text, f"{voice.language}+{voice.variant}", sound.numpy(), 0, len(sound))
        for place, (text, (voice, sound)) in enumerate(zip(texts, said, strict=True))
    ]


def noises(count: int, samples: int, generator: torch.Generator) -> Tensor:
    """Cuts of pink noise, from inaudible to loud: int16 (count, samples)."""
    noise = hiss(samples)
    starts = torch.randint(0, len(noise) - samples + 1, (count, 1), generator=generator)
    loudness = 10 ** (-2 * torch.rand(count, 1, generator=generator)) * torch.rand(count, 1, generator=generator)
    return (noise[starts + torch.arange(samples)] * loudness).round().to(torch.int16)


def save_example(path: str | Path, words: Sequence[str] = ("left", "stop", "go"), pause_s: float = 0.8) -> None:
    """Write words spoken one after the other by a voice that no training clip has, with pauses around each."""
    voice = draw_voice("test", torch.Generator().manual_seed(7))
    pause = torch.zeros(round(pause_s * SAMPLE_RATE_HZ), dtype=torch.int16)
    with Synthesizer() as synthesizer:
        said = [part for word in words for part in (pause, synthesizer.speak(word, voice))]
    soundfile.write(path, torch.cat([*said, pause]).numpy(), SAMPLE_RATE_HZ)
