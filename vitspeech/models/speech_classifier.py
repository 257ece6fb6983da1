"""The speech classifier: waveform -> tokens -> attention encoder -> pooling -> head.

Shapes: B batch, N samples, T tokens, D model width.
"""

from typing import Literal

from torch import Tensor, nn

from vitspeech.attention import ClassToken, EncoderConfig
from vitspeech.attention.pooling import pooling_of
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_encoder import SpeechEncoder


class SpeechClassifier(SpeechEncoder):
    """A keyword transformer (Berg et al. 2021, arXiv:2104.00769) with whole or truncated self-attention.

    With `left` and `right` in tokens, one for all blocks or one for each, it is Yeh et al.'s truncated self-attention
    (2019, arXiv:1910.12977), and with a limited `right` it can be streamed (`vitspeech.stream`). `context_ms` says what
    all blocks see together.

    Args:
        classes: Number of labels.
        tokens: What makes tokens of waveforms, and by its `width` the model width D; `None` is `SpeechTokens()`.
        encoder: Depth, heads, contexts and so on; `None` is `EncoderConfig()`.
        pooling: `mean`, `self_attentive`, or a pooling of width D.
        positions: `rotary` or `relative` tell attention the distance; `None` leaves order to the tokens' stem.

    Shape:
        samples within ±1 (B, N) -> logits (B, classes)

    Raises:
        ValueError: If `heads` does not divide the width, a name is unknown, or a waveform is too short for a token.
    """

    def __init__(
        self,
        classes: int = 0,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | None = None,
        *,
        pooling: Literal["mean", "self_attentive"] | nn.Module = "mean",
        positions: Literal["relative", "rotary"] | None = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        width = self.tokens.width
        self.pooling = pooling_of(pooling, width)
        if isinstance(self.pooling, ClassToken):
            raise ValueError("pooling: a class token has no place among tokens that stand for time; use a mean")
        self.head = nn.Linear(self.pooling.factor * width, classes)

    def forward_tokens(self, waveforms: Tensor) -> Tensor:
        """What each token has become in the encoder: (B, N) -> (B, T, D)."""
        return self.encode(waveforms)[0]

    def forward_features(self, waveforms: Tensor) -> Tensor:
        """What the head sees: (B, N) -> (B, D), or (B, hops · D) after a pooling with several hops."""
        return self.pooling(self.forward_tokens(waveforms))

    def forward(self, waveforms: Tensor) -> Tensor:
        return self.head(self.forward_features(waveforms))

    def forward_frames(self, waveforms: Tensor) -> Tensor:
        """A row of logits a token, of which `forward` with mean pooling is the mean: (B, N) -> (B, T, classes)."""
        return self.forward_head(self.forward_tokens(waveforms))

    def forward_head(self, encoded: Tensor) -> Tensor:
        """Logits of what tokens have become: (B, T, D) -> (B, T, classes).

        Raises:
            ValueError: If the pooling's hops leave the head nothing to say of a single token.
        """
        if self.pooling.factor != 1:
            raise ValueError(f"the head takes {self.pooling.factor} hops of the pooling at once, not a single token")
        return self.head(encoded)
