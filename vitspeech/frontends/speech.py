"""From waveforms to speech tokens: log-mel frames, masked in training, projected to the model width.

Shapes: B batch, N samples, T tokens, D model width.
"""

from typing import Any, Literal

from torch import Tensor, nn

from vitspeech.errors import check_number, named
from vitspeech.frontends.augment import SpecAugment, VocalTractPerturbation
from vitspeech.frontends.frames import ConvolutionalFrames, StackedFrames
from vitspeech.frontends.log_mel import LogMel

STEMS = {"stacked": StackedFrames, "convolutional": ConvolutionalFrames}


class SpeechFrontend(nn.Module):
    """Turns waveforms into tokens; token i covers `window_samples` samples from i · `hop_samples` on.

    There is no padding, and tokens do not depend on the rest of the utterance, so the tokens of a stream equal those of
    the full recording.

    Args:
        width: Model width D.
        mels: Mel bins.
        stem: `convolutional` (`ConvolutionalFrames`) or `stacked` (`StackedFrames`).
        stride: Stride of the tokens in log-mel frames.
        spec_augment: Masks over the frames in training; `None` masks nothing.
        vocal_tract: Reach of `VocalTractPerturbation` in training, such as 0.1; 0 is off.
        **log_mel: Further arguments of `vitspeech.frontends.LogMel`: `sample_rate_hz`, `window_ms`, `hop_ms`, `low_hz`,
            `high_hz`, `epsilon`, `floor_db`.

    Shape:
        waveforms (B, N), lengths in samples (B,) or None -> (B, T, D) with T = 1 + (N - window_samples) // hop_samples;
        no token for shorter waveforms. With lengths, padding at the end does not count in batch norm.
    """

    def __init__(
        self,
        width: int = 128,
        *,
        mels: int = 80,
        stem: Literal["convolutional", "stacked"] = "convolutional",
        stride: int = 2,
        spec_augment: SpecAugment | None = None,
        vocal_tract: float = 0.0,
        **log_mel: Any,
    ) -> None:
        super().__init__()
        check_number("stride", stride, 1)
        self.width = width
        self.log_mel = LogMel(mels, **log_mel)
        centers_hz, rate = self.log_mel.centers_hz, self.log_mel.sample_rate_hz
        self.vocal_tract = VocalTractPerturbation(vocal_tract, centers_hz, rate) if vocal_tract else nn.Identity()
        self.spec_augment = spec_augment or nn.Identity()
        self.frames = named(STEMS, "stem", stem)(mels, width, stride)

    @property
    def hop_samples(self) -> int:
        """Samples from the start of one token to the next."""
        return self.frames.stride * self.log_mel.hop_samples

    @property
    def window_samples(self) -> int:
        """Samples that a token covers."""
        return self.log_mel.window_samples + (self.frames.receptive_field - 1) * self.log_mel.hop_samples

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Waveforms (B, N), lengths in samples (B,) or None -> tokens (B, T, D)."""
        return self.from_frames(self.log_mel(waveforms), lengths)

    def from_frames(self, frames: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The tokens of log-mel frames: (B, F, M), lengths of their waveforms in samples (B,) or None -> (B, T, D)."""
        counts = None if lengths is None else self.log_mel.count(lengths)
        return self.frames(self.spec_augment(self.vocal_tract(frames)), counts)

    def count(self, samples: Tensor) -> Tensor:
        """The number of tokens of waveforms with these numbers of samples: integers (B,) -> (B,)."""
        return (1 + (samples - self.window_samples) // self.hop_samples).clamp(min=0)

    def milliseconds(self, samples: int) -> float:
        """The duration of a number of samples in milliseconds."""
        return 1000 * samples / self.log_mel.sample_rate_hz
