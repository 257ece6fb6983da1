"""The speech labeler: waveform -> tokens -> encoder -> logits for each log-mel frame.

Shapes: B batch, N samples, T tokens, D model width, S stride of the tokens in frames, R frames covered by a token,
F = T · S labeled frames.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention import EncoderConfig
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_encoder import Positions, SpeechEncoder


class SpeechLabeler(SpeechEncoder):
    """One label for every 10 ms of an utterance: each token classifies the S middle frames of the R that it covers.

    Token i covers log-mel frames i·S .. i·S + R - 1 and classifies S of them, from i·S + (R - S) // 2 on, so that the
    frames of consecutive tokens are consecutive. Labeled frame f begins at `first_frame_ms` + f · `frame_ms`. The few
    frames before the first and after the last have no label.

    With a limited `right` in the encoder it can be streamed (`vitspeech.stream`), S rows per token.

    Args:
        classes: Number of labels, including one for frames without a word. 0 builds no head, and tokens (B, T, D) are
            returned in place of logits.
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechTokens()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        positions: As in `SpeechEncoder`.

    Shape:
        samples within ±1 (B, N), lengths (B,) or None -> logits (B, F, classes), frames per utterance (B,), on
        the device of the lengths

    Raises:
        InputError: If the heads do not divide the width, a name is unknown, or an utterance is too short for a token.
    """

    def __init__(
        self,
        classes: int = 0,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        positions: Positions = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        self.stride = self.tokens.frames.stride
        self.head = nn.Linear(self.tokens.width, self.stride * classes) if classes else None

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        encoded, padding = self.encode(waveforms, lengths)
        logits = self.frame_logits(encoded)
        if padding is None:
            return logits, torch.full((len(logits),), logits.shape[1], device=logits.device)
        return logits, self.tokens.count(lengths) * (logits.shape[1] // encoded.shape[1])

    def forward_frames(self, waveforms: Tensor) -> Tensor:
        """Logits of every frame of unpadded waveforms: (B, N) -> (B, F, classes)."""
        return self.frame_logits(self.forward_features(waveforms))

    def frame_logits(self, tokens: Tensor) -> Tensor:
        """Logits of the frames of encoded tokens: (B, T, D) -> (B, F, classes)."""
        if self.head is None:
            return tokens
        return self.head(tokens).unflatten(-1, (self.stride, -1)).flatten(1, 2)

    @property
    def frame_ms(self) -> float:
        """Milliseconds from one labeled frame to the next."""
        return self.tokens.milliseconds(self.tokens.log_mel.hop_samples)

    @property
    def first_frame_ms(self) -> float:
        """Start of the first labeled frame in milliseconds.

        Log-mel frames overlap; a labeled frame is the middle of its window, one hop long.
        """
        window, hop = self.tokens.log_mel.window_samples, self.tokens.log_mel.hop_samples
        first = (self.tokens.frames.reach - self.stride) // 2
        return self.tokens.milliseconds(first * hop + (window - hop) / 2)
