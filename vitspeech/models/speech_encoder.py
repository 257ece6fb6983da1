"""The base class of the speech models: waveform -> tokens -> encoder.

Shapes: B batch, N samples, T tokens, D model width.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder, EncoderConfig
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechTokens

Positions = Literal["sinusoidal", "learned", "relative", "rotary"] | None


class SpeechEncoder(nn.Module):
    """Speech tokens and an encoder: full or truncated self-attention (Yeh et al. 2019, arXiv:1910.12977), or a module.

    A module in place of attention is `vitspeech.RecurrentEncoder`, `vitspeech.WindowMLP` or one of your own: it maps
    tokens (B, T, D) and their padding (B, T) or `None` to (B, T, D), and has the attributes `width` (D), `reach` (past
    context and look-ahead in tokens, `None` if unlimited) and, if it can be streamed, a method `stream()`.

    With a limited look-ahead it can be streamed (`vitspeech.stream`). `context_ms` is the context of the whole encoder.

    Args:
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechTokens()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder of width D.
        positions: `sinusoidal` or `learned` positions are added to the tokens, `rotary` or `relative` ones act in
            attention; with `None` only the stem of the tokens is aware of order. Not used by an encoder that is a
            module.

    Raises:
        InputError: If the heads do not divide the width, a name is unknown, or the encoder has another width.
    """

    def __init__(
        self,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        positions: Positions = "rotary",
    ) -> None:
        super().__init__()
        self.tokens = SpeechTokens() if tokens is None else tokens
        self.encoder = make_encoder(encoder, self.tokens.width, positions)

    def encode(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Encoded tokens, and a mask of the valid ones; arguments, shapes and errors as in `valid_tokens`."""
        lengths = self.check_lengths(waveforms, lengths)
        return self.encode_tokens(self.tokens(waveforms, lengths), lengths)

    def valid_tokens(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Tokens before the encoder, and a mask of the valid ones.

        Args:
            waveforms: Samples within ±1.
            lengths: Number of samples of each utterance, if they are padded at the end; `None` uses full rows. Keep
                them on the host: their values are read, which on a GPU waits for all pending work.

        Shape:
            (B, N), (B,) or None -> (B, T, D), true for valid tokens (B, T) or None

        Raises:
            InputError: If an utterance is too short for a token, or the lengths do not match the waveforms.
        """
        lengths = self.check_lengths(waveforms, lengths)
        return self.without_padding(self.tokens(waveforms, lengths), lengths)

    def check_lengths(self, waveforms: Tensor, lengths: Tensor | None) -> Tensor | None:
        """The lengths of `encode` on the host.

        Raises:
            InputError: If an utterance is too short for a token, or the lengths do not match the waveforms.
        """
        if waveforms.ndim != 2:
            raise InputError(f"waveforms of shape {tuple(waveforms.shape)} are not (batch, samples)")
        lengths = None if lengths is None else lengths.cpu()
        samples = [waveforms.shape[1]] if lengths is None else lengths.tolist()
        if lengths is not None and (lengths.shape != waveforms.shape[:1] or max(samples) > waveforms.shape[1]):
            raise InputError(f"lengths {samples} do not fit waveforms of shape {tuple(waveforms.shape)}")
        minimum, shortest = self.tokens.window_samples, min(samples)
        if shortest < minimum:
            which = "a waveform" if lengths is None else f"utterance {samples.index(shortest)} of the batch,"
            raise InputError(f"{which} of {shortest} samples is below the {minimum} of one token")
        return lengths

    def encode_tokens(self, tokens: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """As `encode`, from the tokens of the waveforms (B, T, D) and the lengths on the host."""
        tokens, padding = self.without_padding(tokens, lengths)
        return self.encoder(tokens) if padding is None else self.encoder(tokens, padding), padding

    def without_padding(self, tokens: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Tokens up to those of the longest utterance, and a mask of the valid ones; as in `encode_tokens`."""
        if lengths is None:
            return tokens, None
        counts = self.tokens.count(lengths)
        # Rows may be padded beyond the longest utterance: tokens there are not encoded.
        tokens = tokens[:, : max(counts.tolist())]
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return tokens, places < counts.to(tokens.device, non_blocking=True)[:, None]

    def forward_features(self, waveforms: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Encoded tokens: (B, N), (B,) or None -> (B, T, D)."""
        return self.encode(waveforms, lengths)[0]

    def initialize(self, waveforms: Tensor) -> None:
        """Set mean and std of the mel bins from a sample of training waveforms (B, N)."""
        self.tokens.log_mel.fit(waveforms)

    @property
    def context_ms(self) -> dict[str, float | None]:
        """Past context and look-ahead of one output through all blocks, in milliseconds; `None` is unlimited.

        A stream returns the output of a token `delay_ms` after the first sample of the token: the look-ahead plus the
        length of one token.
        """
        hop = self.tokens.milliseconds(self.tokens.hop_samples)
        back, ahead = (None if reach is None else reach * hop for reach in self.encoder.reach)
        window = self.tokens.milliseconds(self.tokens.window_samples)
        return {"look_back_ms": back, "look_ahead_ms": ahead, "delay_ms": None if ahead is None else ahead + window}


def make_encoder(encoder: EncoderConfig | nn.Module, width: int, positions: Positions) -> nn.Module:
    """The encoder of a model of width D: attention with these settings, or the given module.

    Raises:
        InputError: If a module is not an encoder, or is of another width.
    """
    if not isinstance(encoder, nn.Module):
        return Encoder(width, encoder, positions=positions)
    name = type(encoder).__name__
    if not all(hasattr(encoder, part) for part in ("width", "reach")):
        raise InputError(f"encoder={name} is not an encoder: it lacks width and reach, which RecurrentEncoder has")
    if encoder.width != width:
        raise InputError(f"encoder={name} has width={encoder.width}, but the tokens have width={width}")
    return encoder
