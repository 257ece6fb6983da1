"""A speech model on sound as it arrives: the outputs of the whole recording, each as soon as it is final.

Shapes: N samples, T tokens, C classes.
"""

import numpy
import torch
from torch import Tensor, nn

from vitspeech.attention.streaming import EncoderStream
from vitspeech.checkpoint.folder import Model

PART_S = 10.0  # seconds of sound whose tokens are made at a time: however much is pushed, memory stays small


class AudioStream:
    """Samples in, one row of logits a token out; `vitspeech.stream` makes it.

    The row for token i comes once sample i·`hop_samples` + `delay_samples` has been pushed: the look-ahead of all
    blocks, and the samples that a token itself is made of. All rows together are `network.forward_frames` of the whole
    recording, however it was cut into pushes.

    Args:
        network: A speech model in evaluation mode, with a limited `right` in every block.

    Attributes:
        hop_samples: From one row to the next.
        delay_samples: From a token's first sample to the last one that its row needs.
        sample_rate_hz: Samples a second.

    Raises:
        ValueError: If the network can't be streamed; the message says why.
    """

    def __init__(self, network: nn.Module) -> None:
        parts = ("tokens", "encoder", "frame_logits")
        if not all(hasattr(network, part) for part in parts):
            raise ValueError(f"{type(network).__name__} has no attention encoder over speech tokens to stream")
        self.network, self.tokens = network, network.tokens
        self.encoder = EncoderStream(network.encoder)
        self.sample_rate_hz = self.tokens.log_mel.sample_rate_hz
        self.hop_samples = self.tokens.hop_samples
        self.delay_samples = sum(network.encoder.right) * self.hop_samples + self.tokens.window_samples
        parameter = next(network.parameters())
        self.kept = parameter.new_zeros(1, 0)
        self.nothing = parameter.new_zeros(1, 0, self.tokens.width)
        self.no_rows = network.frame_logits(self.nothing)[0].detach()

    @torch.inference_mode()
    def push(self, samples: Tensor | numpy.ndarray) -> Tensor:
        """The next samples, int16 or floats within ±1: (N,) -> the logits that have become final (T, C).

        Raises:
            ValueError: If the samples are not one row of numbers, or one of them is no number.
        """
        samples = torch.as_tensor(samples)
        if samples.ndim != 1:
            raise ValueError(f"samples of shape {tuple(samples.shape)} are not one row, (N,)")
        rows = [self.taken(part) for part in samples.split(round(PART_S * self.sample_rate_hz))]
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    @torch.inference_mode()
    def flush(self) -> Tensor:
        """The logits that waited for sound that won't come (T, C); the stream is then as new."""
        self.kept = self.kept[:, :0]
        return self.rows(self.encoder.flush(self.nothing))

    def taken(self, samples: Tensor) -> Tensor:
        """One part of what was pushed."""
        scale = 1 if samples.is_floating_point() else 1 / 32768
        sound = samples.to(self.kept) * scale
        if not sound.isfinite().all():
            raise ValueError(
                f"{int((~sound.isfinite()).sum())} of {len(sound)} samples are no numbers (NaN or infinite)"
            )
        sound = torch.cat((self.kept, sound[None]), dim=1)
        count = max(1 + (sound.shape[1] - self.tokens.window_samples) // self.hop_samples, 0)
        self.kept = sound[:, count * self.hop_samples :].clone()  # a view would keep all of it alive
        return self.rows(self.encoder.push(self.tokens(sound))) if count else self.no_rows

    def rows(self, encoded: Tensor) -> Tensor:
        """Logits (T, C) of what the encoder gave (1, T, D)."""
        return self.network.frame_logits(encoded)[0]


def stream(model: Model | nn.Module) -> AudioStream:
    """Listen with a speech model: `stream.push(samples)` gives the outputs that have become final, `flush` the tail.

    Args:
        model: From `vitspeech.load`, or a network in evaluation mode.

    Raises:
        ValueError: If the model can't be streamed: it looks ahead without a limit, or has no attention over speech.
    """
    return AudioStream(model.network if isinstance(model, Model) else model)
