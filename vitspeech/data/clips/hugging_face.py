"""Clips of Hugging Face data sets."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vitspeech.data.audio.reading import read_audio, read_fitted
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.hugging_face import HuggingFaceLabels, Rows
from vitspeech.data.rows import Content

NOISE = "noise"


class HuggingFaceClips(HuggingFaceLabels, WaveformData):
    """Recordings with one label each, from the Hugging Face Hub, Parquet, a folder, or what `vitspeech pack` wrote.

    They have any sample rate and are read from their bytes, without FFmpeg. Recordings shorter than `seconds` are
    padded; of longer ones the stretch of most energy is kept. If the set has a split `noise`, its recordings are mixed
    in by `WaveformAugment`; else it is pink noise.

    Args:
        path: A name on the hub, or a folder or file; see `HuggingFaceData`.
        makes_silence: Whether clips labeled `silence` are new noise in every training batch, as in `SpeechCommands`.
        **options: Those of `HuggingFaceLabels` and of `WaveformData`.
    """

    feature = "Audio"

    def __init__(self, path: str, *, makes_silence: bool = False, **options: Any) -> None:
        super().__init__(path, **options)
        self.makes_silence, self.item_bytes = makes_silence, 2 * self.samples

    def read_file(self, file: Content | Path) -> Tensor:
        return read_fitted(file, self.samples)

    def item_speakers(self, split: str) -> list[str] | None:
        return None if split == "train" else self.speakers_of(self.rows[split])

    def prepare_data(self) -> None:
        super().prepare_data()
        if NOISE in self.sets:
            files = Rows(self.at_hand(self.sets[NOISE]), NOISE).files(self.column)
            self.noise = torch.cat([*map(read_audio, files)])
