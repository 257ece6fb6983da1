"""The speech recognizer: waveform -> tokens -> attention encoder -> a row of units or blank for each token (CTC).

Shapes: B batch, N samples, T tokens, D model width, U units.
"""

from typing import Literal

from torch import Tensor, nn

from vitspeech.attention import EncoderConfig
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_encoder import SpeechEncoder


class SpeechRecognizer(SpeechEncoder):
    """Words or characters out, as many as there are: connectionist temporal classification over an attention encoder.

    Graves et al. 2006 (doi:10.1145/1143844.1143891). With `left` and `right` in tokens it is truncated self-attention,
    and with a limited `right` it can be streamed, the transcript being that of the whole
    (`vitspeech.TranscriptStream`).

    Args:
        units: Number of words or characters U; the row's last class, after them, is the blank.
        tokens: What makes tokens of waveforms, and by its `width` the model width D; `None` is `SpeechTokens()`.
        encoder: Depth, heads, contexts and so on; `None` is `EncoderConfig()`.
        positions: `rotary` or `relative` tell attention the distance; `None` leaves order to the tokens' stem.

    Shape:
        samples within ±1 (B, N), lengths (B,) or None -> logits (B, T, U + 1), tokens of each utterance (B,)

    Raises:
        ValueError: If `heads` does not divide the width, a name is unknown, or an utterance is too short for a token.
    """

    def __init__(
        self,
        units: int = 0,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | None = None,
        *,
        positions: Literal["relative", "rotary"] | None = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        self.head = nn.Linear(self.tokens.width, units + 1)

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        encoded, padding = self.encode(waveforms, lengths)
        if padding is None:
            return self.head(encoded), encoded.new_full((len(encoded),), encoded.shape[1]).long()
        return self.head(encoded), padding.sum(1)

    def forward_head(self, encoded: Tensor) -> Tensor:
        """Logits of what tokens have become: (B, T, D) -> (B, T, U + 1)."""
        return self.head(encoded)
