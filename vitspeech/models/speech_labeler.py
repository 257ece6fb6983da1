"""The speech labeler: waveform -> tokens -> attention encoder -> a row of logits for each log-mel frame.

Shapes: B batch, N samples, T tokens, D model width, S frames from token to token, R frames a token sees, F = T · S
labeled frames.
"""

from typing import Literal

from torch import Tensor, nn

from vitspeech.attention import EncoderConfig
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_encoder import SpeechEncoder


class SpeechLabeler(SpeechEncoder):
    """What is said at every 10 ms: each token names the S frames in the middle of the R that it sees.

    Token i sees log-mel frames i·S .. i·S + R - 1 and names S of them from i·S + (R - S) // 2 on, so that the tokens'
    frames lie side by side: labeled frame f lasts from `first_frame_ms` + f · `frame_ms` to where f + 1 begins. The
    few frames before the first and after the last have no label.

    With `left` and `right` in tokens it is truncated self-attention (Yeh et al. 2019, arXiv:1910.12977), and with a
    limited `right` it can be streamed (`vitspeech.stream`): S rows a token.

    Args:
        classes: Number of labels, with one for frames in which nothing is said.
        tokens: What makes tokens of waveforms, and by its `width` the model width D; `None` is `SpeechTokens()`.
        encoder: Depth, heads, contexts and so on; `None` is `EncoderConfig()`.
        positions: `rotary` or `relative` tell attention the distance; `None` leaves order to the tokens' stem.

    Shape:
        samples within ±1 (B, N), lengths (B,) or None -> logits (B, F, classes), frames of each utterance (B,)

    Raises:
        ValueError: If `heads` does not divide the width, a name is unknown, or an utterance is too short for a token.
    """

    def __init__(
        self,
        classes: int = 0,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | None = None,
        *,
        positions: Literal["relative", "rotary"] | None = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        self.stride = self.tokens.frames.stride
        self.head = nn.Linear(self.tokens.width, self.stride * classes)

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        encoded, padding = self.encode(waveforms, lengths)
        logits = self.forward_head(encoded)
        if padding is None:
            return logits, logits.new_full((len(logits),), logits.shape[1]).long()
        return logits, padding.sum(1) * self.stride

    def forward_head(self, encoded: Tensor) -> Tensor:
        """Logits of what tokens have become: (B, T, D) -> (B, F, classes)."""
        return self.head(encoded).unflatten(-1, (self.stride, -1)).flatten(1, 2)

    @property
    def frame_ms(self) -> float:
        """From one labeled frame to the next."""
        return self.tokens.milliseconds(self.tokens.log_mel.hop_samples)

    @property
    def first_frame_ms(self) -> float:
        """Where the first labeled frame begins.

        Log-mel frames overlap: a frame's own is as much of the middle of its window as lies between two frames.
        """
        window, hop = self.tokens.log_mel.window_samples, self.tokens.log_mel.hop_samples
        first = (self.tokens.frames.reach - self.stride) // 2
        return self.tokens.milliseconds(first * hop + (window - hop) / 2)
