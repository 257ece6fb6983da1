"""The speech classifier: waveform -> tokens -> encoder -> pooling -> head.

Shapes: B batch, N samples, T tokens, D model width, W features before the head.
"""

from typing import Literal

from torch import Tensor, nn

from vitspeech.attention import ClassToken, EncoderConfig
from vitspeech.attention.pooling import make_pooling
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_encoder import Positions, SpeechEncoder


class SpeechClassifier(SpeechEncoder):
    """A keyword transformer (Berg et al. 2021, arXiv:2104.00769) with full or truncated self-attention.

    With a limited `right` in the encoder it can be streamed (`vitspeech.stream`).

    Args:
        classes: Number of labels; 0 builds no head, and `forward` returns pooled features (B, W).
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechTokens()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        pooling: `mean`, `self_attentive`, or a pooling module of width D.
        positions: As in `SpeechEncoder`.

    Shape:
        samples within ±1 (B, N) -> logits (B, classes)

    Raises:
        InputError: If the heads do not divide the width, a name is unknown, or a waveform is too short for a token.
    """

    def __init__(
        self,
        classes: int = 0,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        pooling: Literal["mean", "self_attentive"] | nn.Module = "mean",
        positions: Positions = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        width = self.tokens.width
        self.pooling = make_pooling(pooling, width)
        if isinstance(self.pooling, ClassToken):
            raise InputError("pooling: a class token has no position in time; use a mean or self_attentive")
        self.head = nn.Linear(self.pooling.factor * width, classes) if classes else nn.Identity()

    def forward_head(self, tokens: Tensor, pre_logits: bool = False) -> Tensor:
        """Pool and classify: (B, T, D) -> (B, classes), or pooled features (B, W) with `pre_logits`."""
        features = self.pooling(tokens)
        return features if pre_logits else self.head(features)

    def forward(self, waveforms: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(waveforms))

    def forward_frames(self, waveforms: Tensor) -> Tensor:
        """Logits of every token: (B, N) -> (B, T, classes). With mean pooling, `forward` is their mean."""
        return self.frame_logits(self.forward_features(waveforms))

    def frame_logits(self, tokens: Tensor) -> Tensor:
        """Logits of encoded tokens: (B, T, D) -> (B, T, classes).

        Raises:
            InputError: If the head takes several hops of a pooling, so that it cannot classify single tokens.
        """
        if self.pooling.factor != 1:
            raise InputError(f"the head takes {self.pooling.factor} hops of the pooling; it cannot classify one token")
        return self.head(tokens)
