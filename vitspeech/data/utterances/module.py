"""The base class of utterance data sets: transcripts as units, waveforms of variable length, in memory or in a pack.

Shapes: B utterances, N samples.
"""

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy
import pyarrow
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.module import DataModule, check_augment
from vitspeech.data.storage.packed import Pack, numbers
from vitspeech.data.utterances.augment import SequenceAugment
from vitspeech.data.utterances.batch import SpeechBatch, collate
from vitspeech.data.utterances.subwords import Subwords
from vitspeech.decoding.vocabulary import PIECES
from vitspeech.errors import InputError, some_names


@dataclass(frozen=True)
class PackedUtterance:
    """What is known of an utterance besides its samples: its path when it was packed, and the transcript."""

    id: str
    words: list[str]


class Described(Sequence):
    """The utterances of a split, made when they are asked for: a million of them need no memory."""

    def __init__(self, names: pyarrow.ChunkedArray, transcripts: pyarrow.ChunkedArray) -> None:
        self.names, self.transcripts = names, transcripts

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> PackedUtterance:
        return PackedUtterance(self.names[index].as_py(), self.transcripts[index].as_py().split())


class PackedUtterances(Dataset):
    """The utterances of a split of a pack, indexed by (indices, seed); `encode` is that of the data set."""

    def __init__(self, pack: Pack, split: str, encode: Callable[[Sequence[str]], list[int]]) -> None:
        self.pack, self.split, self.encode, self.shards = pack, split, encode, pack.shards(split)

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name not in ("utterances", "speakers")}

    @cached_property
    def utterances(self) -> Described:
        """For each utterance its id and its words."""
        table = self.pack.table(self.split)
        return Described(table.column("name"), table.column("transcript"))

    @cached_property
    def speakers(self) -> list[list[str]] | None:
        """For each utterance the speaker of each word; `None` if unknown."""
        names = self.pack.speakers(self.split)
        return names and [[name] * len(item.words) for name, item in zip(names, self.utterances, strict=True)]

    @property
    def seconds(self) -> Tensor:
        """The duration of each utterance in seconds, in double precision (utterances,)."""
        samples = self.pack.table(self.split).column("bytes").to_numpy() // 2
        return torch.from_numpy(samples / self.pack.preprocessing["sample_rate_hz"])

    def __len__(self) -> int:
        return len(self.shards)

    def __getitem__(self, batch: tuple[Tensor, int]) -> tuple[SpeechBatch, int]:
        indices, seed = batch[0].tolist(), batch[1]
        sounds = [numbers(self.shards.read(index), "int16", (-1,)) for index in indices]
        return collate(sounds, [self.encode(self.utterances[index].words) for index in indices]), seed


CHARACTERS = (" ", "'", *string.ascii_lowercase)
SHOWN_LABELS = 50  # most labels listed in a message: enough for all characters


class UtteranceData(DataModule):
    """A set of utterances of variable length with transcripts. Batches are (`SpeechBatch`, seed).

    A data set of your own is a subclass that sets `labels` and implements `read`. The data set that `read` returns has
    a list `utterances`, whose items have an `id` and a list of `words`, and is indexed by (indices, seed). In
    `mine.py`::

        from types import SimpleNamespace

        import torch
        from torch.utils.data import Dataset
        from vitspeech.data import UtteranceData, collate

        HERTZ = {"low": 300, "high": 900}

        class Tones(UtteranceData):
            labels = list(HERTZ)

            def read(self, split):
                count = {"train": 200, "validation": 20, "test": 21}[split]
                generator = torch.Generator().manual_seed(count)
                return ToneSequences(self, torch.randint(2, (count, 3), generator=generator).tolist())

        class ToneSequences(Dataset):
            def __init__(self, data, rows):
                transcripts = [[data.labels[unit] for unit in row] for row in rows]
                self.data = data
                self.utterances = [SimpleNamespace(id=str(i), words=words) for i, words in enumerate(transcripts)]

            def __len__(self):
                return len(self.utterances)

            def __getitem__(self, batch):
                indices, seed = batch
                transcripts = [self.utterances[index].words for index in indices.tolist()]
                sounds = [sound(words) for words in transcripts]
                return collate(sounds, [self.data.encode(words) for words in transcripts]), seed

        def sound(words):
            seconds = torch.arange(4000) / 16_000
            tones = [torch.sin(2 * torch.pi * HERTZ[word] * seconds) for word in words]
            return (8000 * torch.cat(tones)).to(torch.int16)

    If it also has `speakers`, for each utterance a list of the speaker of each word, intervals of error rates resample
    speakers instead of utterances.

    `read` must return the same items whenever it is called. The config names the class,
    `data: {class_path: mine.Tones, init_args: {batch: 16}}`. Labeling frames also needs the `spans` of the words; see
    `collate`. For recordings in files, `TranscribedAudio` needs no code.

    Args:
        units: What is recognized: `words`, `characters` (with a space between words), or `pieces` of words, for which
            a subclass sets `subwords`.
        batch: Utterances of an optimizer step, on all devices together.
        augment: Augmentation of training utterances; `None` is `SequenceAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        **storage: The other arguments of `DataModule`: `storage`, `workers`, `broken`.

    Attributes:
        manifests: Names or files of the manifests that the test sets are read from, if any.
        subwords: Splits words into pieces; `None` if the units are others.
    """

    items = "utterances"
    evaluation_batch = 64
    sample_rate_hz = SAMPLE_RATE_HZ
    manifests: Sequence[str] = ()
    subwords: Subwords | None = None

    def __init__(
        self,
        *,
        units: Literal["words", "characters", "pieces"] = "words",
        batch: int = 64,
        augment: SequenceAugment | None = None,
        seed: int = 0,
        **storage: Any,
    ) -> None:
        super().__init__(batch=batch, seed=seed, **storage)
        self.units = units
        self.augment = SequenceAugment() if augment is None else augment
        check_augment(self.augment, SequenceAugment)

    @property
    def preprocessing(self) -> dict[str, Any]:
        merges = {"merges": self.subwords.merges} if self.units == PIECES else {}
        return {"sample_rate_hz": self.sample_rate_hz, "units": self.units, **merges}

    def test_sets(self) -> dict[str, Dataset]:
        """The test sets by name; the first one gives the main result. Each has `utterances` with `id` and `words`."""
        return {"test": self.items_of("test")}

    def transcripts(self, split: str) -> list[list[str]]:
        """The words of each utterance of a split, for a language model; no sound is read if they are known without."""
        return [list(utterance.words) for utterance in self.items_of(split).utterances]

    def packed(self, split: str) -> PackedUtterances:
        return PackedUtterances(self.pack, split, self.encode_known)

    def words_of(self, text: str) -> list[str]:
        """The words of a line of text as this data set has them in its transcripts."""
        return text.split()

    @cached_property
    def label_indices(self) -> dict[str, int]:
        """The index of each label."""
        return {label: index for index, label in enumerate(self.labels)}

    def encode(self, words: Sequence[str]) -> list[int]:
        """Encode a transcript as label indices of its units."""
        if self.units == PIECES:
            return self.subwords.encode(words)
        units = list(words) if self.units == "words" else list(" ".join(words))
        foreign = next((unit for unit in units if unit not in self.label_indices), None)
        if foreign is not None:
            vocabulary = some_names([repr(label) if label == " " else label for label in self.labels], SHOWN_LABELS)
            raise InputError(f"{foreign!r} of {' '.join(words)!r} is outside the vocabulary {vocabulary}")
        return [self.label_indices[unit] for unit in units]

    def encode_known(self, words: Sequence[str]) -> list[int]:
        """As `encode`; a subclass may leave out what training does not have."""
        return self.encode(words)

    def normalize(self, inputs: Tensor) -> Tensor:
        """Convert int16 samples (B, N) to floats within ±1."""
        return inputs / 32768

    def augment_batch(self, speech: SpeechBatch) -> SpeechBatch:
        """Augment float training utterances, with random numbers from torch's global generator."""
        return self.augment(speech, self.sample_rate_hz)

    def transfer_batch_to_device(
        self, batch: tuple[SpeechBatch, int], device: torch.device, dataloader_idx: int
    ) -> tuple[SpeechBatch, int]:
        """Move the waveforms to the device. Lengths, units and spans stay on the host, where they are read."""
        speech, seed = batch
        return speech._replace(waveforms=speech.waveforms.to(device, non_blocking=True)), seed

    def on_after_batch_transfer(self, batch: tuple[SpeechBatch, int], dataloader_idx: int) -> SpeechBatch:
        """Normalize utterances and, in training, augment them, on the training device."""
        speech, seed = batch
        if self.trainer.training:
            return self.training_batch(speech, seed)
        return speech._replace(waveforms=self.normalize(speech.waveforms))

    def training_batch(self, speech: SpeechBatch, seed: int) -> SpeechBatch:
        """Normalize a batch, seed torch and NumPy with the batch's own seed, and augment the batch."""
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        return self.augment_batch(speech._replace(waveforms=self.normalize(speech.waveforms)))
