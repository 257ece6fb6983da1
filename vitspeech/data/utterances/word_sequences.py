"""Utterances of several words, put together from clips of single words: a seeded, published protocol.

Speech Commands has no sequences, and nothing else did that anyone could compare on. How an utterance is drawn stands
in `WordSequences`, how it sounds in `utterances.py`; what is tested on stands in manifests with their sha256.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.utterances.augment import SequenceAugment, check_range
from vitspeech.data.utterances.composition import Speech, Utterance, collated, composed, read_manifest, write_manifest
from vitspeech.data.utterances.drawing import Drawing
from vitspeech.data.utterances.module import CHARACTERS, UtteranceData
from vitspeech.data.utterances.word_clips import WordSource

MANIFESTS = Path(__file__).parent / "manifests"
FIXED = {"validation": 20_261_121, "test": 20_261_122}  # seeds of what is drawn once and for all


class WordSequences(UtteranceData):
    """Utterances of 1 to 7 words, with what was said, unit by unit, and when, to the sample.

    An utterance has as many words as are drawn, each count as often. Its first clip is drawn from all of the split; the
    others are of the same speaker, none twice, and where the speaker has too few, the rest are anyone's. Words are cut
    at their ends (`word_span`), brought to one loudness, and stand apart by silences drawn from `gap_ms`, one before
    the first and one after the last, too; 40 ms on either side of a word fade in and out, over its neighbor where the
    silence is shorter. Noise from the split's own recordings lies under all of it. No clip, speaker or stretch of noise
    of one split is in another, since the source's splits are apart.

    Training utterances are drawn anew for every batch, by the batch's own seed; validation and test are drawn once and
    for all.

    Args:
        source: Single words: `SpeechCommands`, `SpokenWords` or `SpokenVocabulary`.
        units: What is recognized: the source's `words`, or `characters` (a space between words).
        words: How many words an utterance has: the fewest and the most.
        gap_ms: Silence between words: the shortest and the longest.
        snr_db: The words' energy over the noise's, in decibels: the lowest and the highest.
        count: Utterances an epoch; validation and test have a tenth of it.
        manifests: Test sets: those that come with the package by name (`speech-commands-1-7`, `speech-commands-8-12`),
            others by their file. The first is what a model is judged by, each is reported; without any the test set
            is drawn by this protocol.
        batch: Utterances a training batch, on each device.
        augment: What happens to training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.

    Raises:
        ValueError: If a number is out of its range, or the manifest is altered or does not fit the source.
        FileNotFoundError: If there is no such manifest, or the source is not there.
    """

    def __init__(
        self,
        source: WordSource,
        *,
        units: Literal["words", "characters"] = "words",
        words: tuple[int, int] = (1, 7),
        gap_ms: tuple[float, float] = (0.0, 400.0),
        snr_db: tuple[float, float] = (10.0, 30.0),
        count: int = 8000,
        manifests: Sequence[str] = (),
        batch: int = 64,
        augment: SequenceAugment | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(units=units, batch=batch, augment=augment, seed=seed)
        check_range("words", words)
        check_range("gap_ms", gap_ms)
        check_range("snr_db", snr_db)
        if words[0] < 1 or gap_ms[0] < 0 or count < 10:
            raise ValueError(f"words={list(words)}, gap_ms={list(gap_ms)} or count={count} is too small")
        self.source, self.words, self.gap_ms, self.snr_db = source, words, gap_ms, snr_db
        self.count, self.manifests = count, list(manifests)
        if len({Path(manifest).stem for manifest in manifests}) < len(self.manifests):
            raise ValueError(f"manifests={self.manifests} are reported by name, and a name is there twice")
        self.sample_rate_hz = source.sample_rate_hz
        self.labels = list(source.words if units == "words" else CHARACTERS)

    def prepare_data(self) -> None:
        """See that the source and the manifest are there."""
        if hasattr(self.source, "prepare_data"):
            self.source.prepare_data()
        for manifest in self.manifests:
            read_manifest(manifest_file(manifest))

    def read(self, split: str) -> Dataset:
        if split == "test":
            return next(iter(self.tests().values()))
        drawing = self.drawing(split)
        return Drawn(drawing, self) if split == "train" else self.drawn(split, drawing)

    def tests(self) -> dict[str, "Utterances"]:
        """The test sets by the names of their manifests, the one that counts first; `drawn` where there are none."""
        drawing, sets = self.drawing("test"), {}
        for manifest in self.manifests:
            utterances = read_manifest(manifest_file(manifest))
            self.check_vocabulary(manifest_file(manifest), utterances, drawing)
            sets[Path(manifest).stem] = Utterances(utterances, drawing, self)
        return sets or {"drawn": self.drawn("test", drawing)}

    def drawing(self, split: str) -> Drawing:
        """What draws the split's utterances by this protocol, but in training over the noise of `augment`."""
        snr_db = self.augment.snr_db if split == "train" else self.snr_db
        return Drawing(self.source, split, self.words, self.gap_ms, snr_db)

    def drawn(self, split: str, drawing: Drawing) -> "Utterances":
        """A tenth of `count` utterances, the same whatever the run's seed."""
        generator = numpy.random.default_rng(FIXED[split])
        count = max(self.count // 10, 1)
        return Utterances([drawing.draw(f"{split}-{number:04}", generator) for number in range(count)], drawing, self)

    def write_manifest(self, file: str | Path) -> str:
        """Write the test set as this protocol draws it, and its sha256 beside it (SHA256SUMS); give the sha256."""
        return write_manifest(self.drawn("test", self.drawing("test")).utterances, file)

    def check_vocabulary(self, file: Path, utterances: Sequence[Utterance], drawing: Drawing) -> None:
        """Refuse a manifest that names a word or a clip which the source has not, or a clip of another word.

        Raises:
            ValueError: If it does; the message names the line.
        """
        for number, utterance in enumerate(utterances, 1):
            place = f"{file}: line {number}"
            strange = next((word for word in utterance.words if word not in self.source.words), None)
            if strange is not None:
                raise ValueError(f"{place}: the word {strange!r} is outside the vocabulary {list(self.source.words)}")
            for word, clip, (_, last) in zip(utterance.words, utterance.clips, utterance.cuts, strict=True):
                if clip not in drawing.clips or last > len(drawing.clips[clip].samples):
                    raise ValueError(f"{place}: the clip {clip} is not in the test split, or shorter than its cut")
                if drawing.clips[clip].word != word:
                    raise ValueError(f"{place}: the clip {clip} says {drawing.clips[clip].word!r}, not {word!r}")
            if utterance.noise[0] not in drawing.noises:
                raise ValueError(f"{place}: the noise {utterance.noise[0]} is not there")


class Drawn(Dataset):
    """Training utterances: those of a batch follow from its seed; the indices only count them."""

    def __init__(self, drawing: Drawing, data: WordSequences) -> None:
        self.drawing, self.data = drawing, data

    def __len__(self) -> int:
        return self.data.count

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Speech, int]:
        indices, seed = batch
        generator = numpy.random.default_rng(seed)
        utterances = [self.drawing.draw("", generator) for _ in range(len(indices))]
        return spoken(utterances, self.drawing, self.data), seed


class Utterances(Dataset):
    """Utterances that are given, indexed by whole batches."""

    def __init__(self, utterances: Sequence[Utterance], drawing: Drawing, data: WordSequences) -> None:
        self.utterances, self.drawing, self.data = utterances, drawing, data

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[Speech, int]:
        indices, seed = batch
        return spoken([self.utterances[index] for index in indices.tolist()], self.drawing, self.data), seed


def spoken(utterances: Sequence[Utterance], drawing: Drawing, data: WordSequences) -> Speech:
    """The sound of utterances with their units, side by side."""
    sounds = [composed(utterance, drawing.clips, drawing.noises) for utterance in utterances]
    return collated(sounds, [data.encoded(utterance.words) for utterance in utterances], utterances)


def manifest_file(manifest: str) -> Path:
    """Where a manifest lies: one of the package's by its name, else the file itself."""
    own = MANIFESTS / f"{manifest}.jsonl"
    return own if own.is_file() else Path(manifest)
