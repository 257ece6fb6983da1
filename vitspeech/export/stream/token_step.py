"""The next token of a stream from the next samples: the front end of `StreamStep`.

Shapes: N samples of a step, F frames, M mel bins, R frames covered by a token, D model width.
"""

import torch
from torch import Tensor, nn

from vitspeech.export.stream.state_layout import StateLayout
from vitspeech.frontends import SpeechFrontend
from vitspeech.frontends.frames import ConvolutionalFrames


class TokenStep(nn.Module):
    """The next token, and the samples and frames that the token after it shares with it.

    Args:
        tokens: The front end of the network.

    Shape:
        samples (1, N) and the two parts of the state -> token (1, D), and the two parts of the next state
    """

    parts = 2

    def __init__(self, tokens: SpeechFrontend) -> None:
        super().__init__()
        self.log_mel, self.frames = tokens.log_mel, tokens.frames
        if isinstance(tokens.frames, ConvolutionalFrames):
            self.frames = LinearStem(tokens.frames)
        self.overlap = tokens.log_mel.window_samples - tokens.log_mel.hop_samples
        self.receptive_field = tokens.frames.receptive_field
        self.stored = max(self.receptive_field - tokens.frames.stride, 0)

    def declare(self, layout: StateLayout) -> None:
        """Declare the samples that the next frames share, and the frames that the next token shares."""
        layout.declare(1, self.overlap)
        layout.declare(1, self.stored, self.log_mel.mels)

    def forward(self, samples: Tensor, overlap: Tensor, stored: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        samples = torch.cat((overlap, samples), dim=1)
        frames = torch.cat((stored, self.log_mel(samples)), dim=1)
        token = self.frames(frames[:, frames.shape[1] - self.receptive_field :]).view(1, -1)
        return token, samples[:, samples.shape[1] - self.overlap :], frames[:, frames.shape[1] - self.stored :]


class LinearStem(nn.Module):
    """The two convolutions of `ConvolutionalFrames` for one token, as linear layers that include the batch norms.

    Frames lie one after the other in memory, so the input of a convolution at one place is a slice; for one token a
    linear layer is several times as fast as a convolution.

    Args:
        frames: A stem in evaluation mode.

    Shape:
        frames (1, R, M) -> (1, D)
    """

    def __init__(self, frames: ConvolutionalFrames) -> None:
        super().__init__()
        narrow, first_norm, self.activation, strided, last_norm = frames.stem
        self.mels, self.size, self.places = narrow.in_channels, narrow.kernel_size[0], strided.kernel_size[0]
        self.narrow, self.strided = linear(narrow, first_norm), linear(strided, last_norm)

    def forward(self, frames: Tensor) -> Tensor:
        flat = frames.view(-1)
        parts = [flat[place * self.mels : (place + self.size) * self.mels] for place in range(self.places)]
        hidden = self.activation(self.narrow(torch.stack(parts)))
        return self.strided(hidden.view(1, -1))


def linear(convolution: nn.Conv1d, norm: nn.BatchNorm1d) -> nn.Linear:
    """A convolution over time and its batch norm at one place: (1, steps · channels) -> (1, D)."""
    # In double precision, so that the folded weights are rounded once.
    scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    layer = nn.Linear(convolution.kernel_size[0] * convolution.in_channels, convolution.out_channels)
    weight, bias = convolution.weight * scale[:, None, None], norm.bias - norm.running_mean * scale
    layer.weight.data = weight.transpose(1, 2).flatten(1).detach().to(convolution.weight)
    layer.bias.data = bias.detach().to(convolution.weight)
    return layer
