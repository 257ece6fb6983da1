"""Waveform to log-mel frames: what stands before speech tokens.

No frame depends on another or on the whole utterance, so frames of a stream are those of the whole recording.

Shapes: B batch, N samples, F frames, M mel bins, W samples a frame, H samples from frame to frame.
"""

import torch
import torchaudio
from torch import Tensor, nn

SLICE = 8  # seconds of sound whose spectrum stays in a core's cache; of 1 to 128, 4 to 16 were fastest, 128 a third


class LogMel(nn.Module):
    """log(mel + ε) of the power spectrum of Hann-windowed frames, scaled by each bin's mean and std.

    Davis and Mermelstein 1980 (doi:10.1109/TASSP.1980.1163420) without the cosine transform. Filters are torchaudio's
    (HTK scale). Frame f covers samples f·H .. f·H + W - 1: nothing is padded. Mean and std are those of the
    training set (`fit`), never of the utterance.

    Args:
        mels: Mel bins M.
        sample_rate_hz: Samples a second.
        window_ms: Length of a frame.
        hop_ms: From one frame's start to the next.
        low_hz: Where the lowest filter begins.
        high_hz: Where the highest filter ends; at most half the sample rate.
        epsilon: What a silent bin's energy is; samples are within ±1.

    Shape:
        (B, N) -> (B, F, M) with F = 1 + (N - W) // H, and none where N is below W

    Raises:
        ValueError: If a number is out of its range.
    """

    def __init__(
        self,
        mels: int = 80,
        *,
        sample_rate_hz: int = 16_000,
        window_ms: float = 25.0,
        hop_ms: float = 10.0,
        low_hz: float = 20.0,
        high_hz: float = 7600.0,
        epsilon: float = 1e-6,
    ) -> None:
        super().__init__()
        self.window_samples = round(sample_rate_hz * window_ms / 1000)
        self.hop_samples = round(sample_rate_hz * hop_ms / 1000)
        if mels < 1 or not 1 <= self.hop_samples <= self.window_samples or not epsilon > 0:
            raise ValueError(f"mels={mels}, hop_ms={hop_ms}, window_ms={window_ms}, epsilon={epsilon} are no front end")
        if not 0 <= low_hz < high_hz <= sample_rate_hz / 2:
            raise ValueError(f"low_hz={low_hz} .. high_hz={high_hz} is not within 0 .. {sample_rate_hz / 2}")
        self.mels, self.sample_rate_hz, self.epsilon = mels, sample_rate_hz, epsilon
        # A power of two: fast, and fine enough that no low filter falls between two of its lines.
        self.transform = 2 ** (self.window_samples - 1).bit_length()
        filters = torchaudio.functional.melscale_fbanks(self.transform // 2 + 1, low_hz, high_hz, mels, sample_rate_hz)
        self.register_buffer("window", torch.hann_window(self.window_samples), persistent=False)
        self.register_buffer("filters", filters, persistent=False)
        self.register_buffer("mean", torch.zeros(mels))
        self.register_buffer("std", torch.ones(mels))

    def forward(self, waveforms: Tensor) -> Tensor:
        # Half precision has no room for the energies of speech, and autocast would take the filters to it.
        with torch.autocast(waveforms.device.type, enabled=False):
            return self.log_energies(waveforms.to(self.window.dtype)).sub_(self.mean).div_(self.std)

    def log_energies(self, waveforms: Tensor) -> Tensor:
        """log(mel + ε) before the scaling: (B, N) -> (B, F, M)."""
        if waveforms.shape[-1] < self.window_samples:
            return waveforms.new_zeros(len(waveforms), 0, self.mels)
        if waveforms.device.type != "cpu":
            return self.energies(waveforms).add_(self.epsilon).log_()
        clips = max(SLICE * self.sample_rate_hz // waveforms.shape[-1], 1)
        # In place: on CPU the first touch of fresh memory costs more than the arithmetic.
        return torch.cat([self.energies(some) for some in waveforms.split(clips)]).add_(self.epsilon).log_()

    def energies(self, waveforms: Tensor) -> Tensor:
        """The energy in each mel bin of each frame: (B, N) -> (B, F, M)."""
        frames = waveforms.unfold(-1, self.window_samples, self.hop_samples)
        lines = torch.fft.rfft(frames * self.window, self.transform)
        return torch.addcmul(lines.real.square(), lines.imag, lines.imag) @ self.filters

    @property
    def hop_ms(self) -> float:
        """From one frame's start to the next."""
        return 1000 * self.hop_samples / self.sample_rate_hz

    @property
    def centers_hz(self) -> Tensor:
        """The center of gravity of each mel bin's filter: (M,)."""
        lines_hz = torch.linspace(0, self.sample_rate_hz / 2, len(self.filters), dtype=torch.double)
        filters = self.filters.cpu().double()
        return lines_hz @ filters / filters.sum(0)

    @torch.no_grad()
    def fit(self, waveforms: Tensor) -> None:
        """Set mean and std of each bin from a sample of training waveforms (B, N)."""
        energies = self.log_energies(waveforms).flatten(0, 1)
        self.mean.copy_(energies.mean(0))
        self.std.copy_(energies.std(0).clamp(min=1e-3))
