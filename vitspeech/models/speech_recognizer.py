"""The speech recognizer: waveform -> tokens -> encoder -> logits of units and blank for each token (CTC).

Shapes: B batch, N samples, T tokens, D model width, U units.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vitspeech.attention import EncoderConfig
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_encoder import Positions, SpeechEncoder


class SpeechRecognizer(SpeechEncoder):
    """An attention encoder with connectionist temporal classification: transcripts of words or characters.

    Graves et al. 2006 (doi:10.1145/1143844.1143891). With a limited `right` in the encoder it can be streamed, and the
    transcript equals that of the full recording (`vitspeech.TranscriptStream`).

    Args:
        units: Number of words or characters U; the last class, U, is the blank. 0 builds no head, and tokens (B, T, D)
            are returned in place of logits.
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechTokens()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        positions: As in `SpeechEncoder`.

    Shape:
        samples within ±1 (B, N), lengths (B,) or None -> logits (B, T, U + 1), tokens per utterance (B,), on the
        device of the lengths

    Raises:
        InputError: If the heads do not divide the width, a name is unknown, or an utterance is too short for a token.
    """

    def __init__(
        self,
        units: int = 0,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        positions: Positions = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        self.head = nn.Linear(self.tokens.width, units + 1) if units else nn.Identity()

    def forward(
        self, waveforms: Tensor, lengths: Tensor | None = None, depths: Sequence[int] | None = None
    ) -> tuple[Tensor | list[Tensor], Tensor]:
        """The logits of each token, and the number of tokens of each utterance.

        Args:
            waveforms: Samples within ±1 (B, N).
            lengths: Number of samples of each utterance (B,), if they are padded.
            depths: Numbers of blocks of the attention encoder, ascending. The logits are then a list with one
                entry for each number, as intermediate CTC needs them (Lee and Watanabe 2021, arXiv:2102.03216).
        """
        tokens, padding = self.valid_tokens(waveforms, lengths)
        if padding is None:
            counts = torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
        else:
            counts = self.tokens.count(lengths)
        if depths is not None:
            return [self.frame_logits(encoded) for encoded in self.encoder.outputs(tokens, padding, depths)], counts
        return self.frame_logits(self.encoder(tokens) if padding is None else self.encoder(tokens, padding)), counts

    def forward_frames(self, waveforms: Tensor) -> Tensor:
        """Logits of every token of unpadded waveforms: (B, N) -> (B, T, U + 1)."""
        return self.frame_logits(self.forward_features(waveforms))

    def frame_logits(self, tokens: Tensor) -> Tensor:
        """Logits of encoded tokens: (B, T, D) -> (B, T, U + 1)."""
        return self.head(tokens)
