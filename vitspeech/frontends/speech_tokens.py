"""Waveform to speech tokens: log-mel frames, masked in training, mapped to the model's width.

Shapes: B batch, N samples, T tokens, D model width.
"""

from typing import Any, Literal

from torch import Tensor, nn

from vitspeech.frontends.frames import ConvolutionalFrames, StackedFrames
from vitspeech.frontends.log_mel import LogMel
from vitspeech.frontends.spec_augment import SpecAugment

STEMS = {"stacked": StackedFrames, "convolutional": ConvolutionalFrames}


class SpeechTokens(nn.Module):
    """Waveforms in, tokens out; token i depends on samples i·`hop_samples` .. i·`hop_samples` + `window_samples` - 1.

    Nothing is padded and nothing depends on the rest of the utterance, so that a stream's tokens are the recording's.

    Args:
        width: Model width D.
        mels: Mel bins.
        stem: `convolutional` (`ConvolutionalFrames`) or `stacked` (`StackedFrames`).
        stride: Log-mel frames from token to token.
        spec_augment: Masks over the frames in training; `None` hides nothing.
        **log_mel: What else `vitspeech.frontends.LogMel` takes: `sample_rate_hz`, `window_ms`, `hop_ms`, `low_hz`,
            `high_hz`, `epsilon`.

    Shape:
        (B, N) -> (B, T, D) with T = 1 + (N - window_samples) // hop_samples, and none for a shorter waveform

    Raises:
        ValueError: If a number is out of its range or a name is unknown.
    """

    def __init__(
        self,
        width: int = 128,
        *,
        mels: int = 80,
        stem: Literal["convolutional", "stacked"] = "convolutional",
        stride: int = 2,
        spec_augment: SpecAugment | None = None,
        **log_mel: Any,
    ) -> None:
        super().__init__()
        if stem not in STEMS:
            raise ValueError(f"stem={stem!r} is unknown; known: {', '.join(STEMS)}")
        self.width = width
        self.log_mel = LogMel(mels, **log_mel)
        self.spec_augment = spec_augment or nn.Identity()
        self.frames = STEMS[stem](mels, width, stride)
        self.hop_samples = stride * self.log_mel.hop_samples
        self.window_samples = self.log_mel.window_samples + (self.frames.reach - 1) * self.log_mel.hop_samples

    def forward(self, waveforms: Tensor) -> Tensor:
        return self.frames(self.spec_augment(self.log_mel(waveforms)))

    def count(self, samples: Tensor) -> Tensor:
        """How many tokens waveforms of so many samples have: whole numbers (B,) -> (B,)."""
        return (1 + (samples - self.window_samples) // self.hop_samples).clamp(min=0)

    def milliseconds(self, samples: int) -> float:
        """How long so many samples last."""
        return 1000 * samples / self.log_mel.sample_rate_hz
