"""The base class of clip data sets: int16 samples in memory, converted to floats and augmented in batches.

Shapes: B batch, N samples of a clip.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vitspeech.data.audio.reading import LONGEST_S, SAMPLE_RATE_HZ, check_audio, read_fitted, readable_clips
from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.noise import pink_noise
from vitspeech.data.clips.silence import SILENCE, replace_silence, shifted
from vitspeech.data.module import FILES, TEST, DataModule, check_augment
from vitspeech.data.rows import FileRows, readable_files
from vitspeech.errors import check_number


class WaveformData(DataModule):
    """A set of clips of one length, at 16 kHz, with one label each.

    A data set of your own is a subclass that sets `labels` and implements `read`. In `mine.py`::

        import torch
        from vitspeech.data import TensorItems, WaveformData

        class Pitch(WaveformData):
            labels = ["low", "high"]

            def read(self, split):
                count = {"train": 1000, "validation": 100, "test": 101}[split]
                generator = torch.Generator().manual_seed(count)
                labels = torch.arange(count) % 2
                hertz = 200 + 600 * labels[:, None]
                seconds = torch.arange(self.samples) / self.sample_rate_hz
                clips = 8000 * torch.sin(2 * torch.pi * hertz * (seconds + torch.rand(count, 1, generator=generator)))
                return TensorItems(clips.to(torch.int16), labels)

    `read` must return the same items whenever it is called. The config names the class,
    `data: {class_path: mine.Pitch, init_args: {seconds: 0.5, augment: {noise_prob: 0}}}`, here without noise, which may
    have tones of any pitch. A subclass with a constructor of its own also takes `batch`, `augment` and `seed` and
    passes them on; the command line sets `seed`. To mix in noise of your own, set `self.noise` to int16 samples.
    `vitspeech.data.audio.reading.read_clips` reads audio files.

    Args:
        seconds: Length of a clip.
        batch: Clips of an optimizer step, on all devices together.
        augment: Augmentation of training clips; `None` is `WaveformAugment()`.
        seed: The run's seed; the command line sets it to `seed_everything`.
        **storage: The other arguments of `DataModule`: `storage`, `workers`, `broken`.

    Attributes:
        samples: Length of a clip in samples, N.
        noise: Recorded noise for the augmentation, int16, at least N samples; pink noise unless it is replaced.
        makes_silence: Whether clips labeled `silence` are new noise of any level, or zeros, in every training batch
            (`replace_silence`), and some clips of each label are shifted by a constant.
    """

    items = "clips"
    makes_silence = False
    sample_rate_hz = SAMPLE_RATE_HZ

    def __init__(
        self,
        *,
        seconds: float = 1.0,
        batch: int = 128,
        augment: WaveformAugment | None = None,
        seed: int = 0,
        **storage: Any,
    ) -> None:
        super().__init__(batch=batch, seed=seed, **storage)
        check_number("seconds", seconds, 0.1, LONGEST_S)
        self.seconds, self.samples = seconds, round(seconds * self.sample_rate_hz)
        self.augment = WaveformAugment() if augment is None else augment
        check_augment(self.augment, WaveformAugment)
        self.noise = pink_noise(self.samples)

    @property
    def preprocessing(self) -> dict[str, Any]:
        return {"sample_rate_hz": self.sample_rate_hz, "seconds": self.seconds}

    def clips_of(self, files: Sequence[Path], split: str) -> tuple[Tensor | FileRows, list[int]]:
        """The clips of audio files, held in memory or not as `storage` says, and the places of their files.

        Broken files are left out as `broken` allows.
        """
        if self.storage != FILES:
            return readable_clips(files, self.samples, split=split, broken=self.broken)
        places = list(range(len(files)))
        if self.checks_files:
            places, _ = readable_files(files, check_audio, split, self.broken)
            files = [files[place] for place in places]
        return FileRows(files, partial(read_fitted, length=self.samples), replace=split != TEST), places

    def augment_batch(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        noise = self.noise.to(inputs.device)
        if self.makes_silence:
            silent = labels == self.labels.index(SILENCE)
            inputs = replace_silence(inputs, silent, self.augment, noise, self.sample_rate_hz)
        # On CPU, 16 clips at a time fit into the cache: twice as fast as the whole batch at once.
        parts = inputs.split(16 if inputs.device.type == "cpu" else len(inputs))
        clips = torch.cat([self.augment(self.normalize(part), noise, self.sample_rate_hz) for part in parts])
        return shifted(clips) if self.makes_silence else clips, labels

    def normalize(self, inputs: Tensor) -> Tensor:
        """Convert int16 samples (B, N) to floats within ±1."""
        return inputs / 32768
