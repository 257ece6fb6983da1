"""What every attention model of speech begins with: waveform -> tokens -> encoder.

Shapes: B batch, N samples, T tokens, D model width.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder, EncoderConfig
from vitspeech.frontends import SpeechTokens


class SpeechEncoder(nn.Module):
    """Speech tokens under whole or truncated self-attention (Yeh et al. 2019, arXiv:1910.12977).

    With a limited `right` it can be streamed (`vitspeech.stream`). `context_ms` says what all blocks see together.

    Args:
        tokens: What makes tokens of waveforms, and by its `width` the model width D; `None` is `SpeechTokens()`.
        encoder: Depth, heads, contexts and so on; `None` is `EncoderConfig()`.
        positions: `rotary` or `relative` tell attention the distance; `None` leaves order to the tokens' stem.

    Raises:
        ValueError: If `heads` does not divide the width or a name is unknown.
    """

    def __init__(
        self,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | None = None,
        *,
        positions: Literal["relative", "rotary"] | None = "rotary",
    ) -> None:
        super().__init__()
        self.tokens = SpeechTokens() if tokens is None else tokens
        self.encoder = Encoder(self.tokens.width, encoder, positions=positions)

    def encode(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """What each token has become in the encoder, and which tokens there are.

        Args:
            waveforms: Samples within ±1.
            lengths: Samples of each utterance, where they are padded at the end; `None` takes all of each row.

        Shape:
            (B, N), (B,) or None -> (B, T, D), true for an utterance's own tokens (B, T) or None

        Raises:
            ValueError: If an utterance is too short for a token, or lengths and waveforms do not fit.
        """
        if lengths is not None and (lengths.shape != waveforms.shape[:1] or int(lengths.max()) > waveforms.shape[1]):
            raise ValueError(f"lengths {lengths.tolist()} do not fit waveforms of shape {tuple(waveforms.shape)}")
        needed = self.tokens.window_samples
        shortest = waveforms.shape[1] if lengths is None else int(lengths.min())
        if shortest < needed:
            which = "a waveform" if lengths is None else f"utterance {int(lengths.argmin())} of the batch,"
            raise ValueError(f"{which} of {shortest} samples is below the {needed} of one token")
        tokens = self.tokens(waveforms)
        if lengths is None:
            return self.encoder(tokens), None
        counts = self.tokens.count(lengths)
        # No more than the longest one has: rows may be padded further than that.
        tokens = tokens[:, : int(counts.max())]
        padding = torch.arange(tokens.shape[1], device=tokens.device) < counts[:, None]
        return self.encoder(tokens, padding), padding

    def initialize(self, waveforms: Tensor) -> None:
        """Set what depends on the data from a sample of training waveforms (B, N)."""
        self.tokens.log_mel.fit(waveforms)

    @property
    def context_ms(self) -> dict[str, float | None]:
        """How far one output looks back and ahead of its own token through all blocks; `None` is without a limit.

        A stream gives the output for a token `delay_ms` after the token's first sample: the look-ahead, and what one
        token itself needs.
        """
        hop = self.tokens.milliseconds(self.tokens.hop_samples)
        back, ahead = (None if reach is None else reach * hop for reach in self.encoder.reach)
        window = self.tokens.milliseconds(self.tokens.window_samples)
        return {"look_back_ms": back, "look_ahead_ms": ahead, "delay_ms": None if ahead is None else ahead + window}
