"""The base class of utterance data sets: transcripts as units, waveforms of variable length.

Shapes: B utterances, N samples.
"""

import string
from collections.abc import Sequence
from typing import Any, Literal

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

from vitspeech.data.audio.reading import SAMPLE_RATE_HZ
from vitspeech.data.batches import SpeechBatch
from vitspeech.data.module import DataModule, check_augment
from vitspeech.data.utterances.augment import SequenceAugment
from vitspeech.data.utterances.subwords import Subwords
from vitspeech.decoding.vocabulary import PIECES
from vitspeech.errors import InputError, some_names

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
        return {"test": self.read("test")}

    def transcripts(self, split: str) -> list[list[str]]:
        """The words of each utterance of a split, for a language model; no sound is read if they are known without."""
        return [list(utterance.words) for utterance in self.read(split).utterances]

    def words_of(self, text: str) -> list[str]:
        """The words of a line of text as this data set has them in its transcripts."""
        return text.split()

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
