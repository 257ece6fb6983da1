"""The speech transcriber: waveform -> tokens -> encoder -> autoregressive decoder -> units.

Shapes: B batch, N samples, T tokens, D model width, H heads, U units, L units of a transcript.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.attention import Decoder, DecoderCache, DecoderConfig, EncoderConfig
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_encoder import Positions, SpeechEncoder


class TranscriberOutput(NamedTuple):
    """Output of a transcriber for utterances with known transcripts.

    Attributes:
        logits: Row i is for unit i, the row after the last unit for the end, which is class U (B, L + 1, U + 1).
        ctc_logits: One row per token; class U is the blank (B, T, U + 1). `None` without a CTC head.
        tokens: Number of valid tokens of each utterance (B,), where the lengths are.
    """

    logits: Tensor
    ctc_logits: Tensor | None
    tokens: Tensor


class SpeechTranscriber(SpeechEncoder):
    """A transformer encoder-decoder for speech (Chan et al. 2016, arXiv:1508.01211; Vaswani et al. 2017).

    With `ctc` a second head classifies the tokens of the encoder, for joint training and decoding (Kim, Hori and
    Watanabe 2017, arXiv:1609.06773). The encoder's attention may be truncated; the decoder attends to the full
    utterance in any case.

    Args:
        units: Number of words or characters U, at least 1.
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechTokens()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        decoder: Settings of the decoder; `None` is two blocks like those of the encoder, see `DecoderConfig.like`. Or a
            decoder of width D with the methods of `vitspeech.Decoder`, such as `vitspeech.RecurrentDecoder`.
        ctc: Whether there is a CTC head.
        positions: Positions of the encoder, as in `SpeechEncoder`.
        decoder_positions: Positions of the decoder, with the same choices; not used by a decoder that is a module.

    Attributes:
        start_unit: Index of the start symbol, which precedes the first unit of a transcript: U.

    Shape:
        samples within ±1 (B, N), lengths in samples (B,) or None, units (B, L) -> `TranscriberOutput`

    Raises:
        InputError: If a number is below 1, the heads do not divide the width, a name is unknown, or an utterance is too
            short for a token.
    """

    def __init__(
        self,
        units: int = 0,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        decoder: DecoderConfig | nn.Module | None = None,
        ctc: bool = False,
        positions: Positions = "rotary",
        decoder_positions: Positions = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        if units < 1:
            raise InputError(f"units={units} is below 1")
        width = self.tokens.width
        self.start_unit = units
        self.embedding = nn.Embedding(units + 1, width)
        self.decoder = make_decoder(decoder, encoder, width, decoder_positions)
        self.head = nn.Linear(width, units + 1)
        self.ctc_head = nn.Linear(width, units + 1) if ctc else None

    def forward(self, waveforms: Tensor, lengths: Tensor | None, units: Tensor) -> TranscriberOutput:
        """Teacher forcing: predict each unit from the true ones before it.

        Args:
            waveforms: Samples within ±1 (B, N).
            lengths: Number of samples of each utterance (B,); `None` uses full rows.
            units: Units of the transcripts, padded at the end with -1 or any unit (B, L).
        """
        encoded, padding = self.encode(waveforms, lengths)
        full = torch.full((len(encoded),), encoded.shape[1], device=encoded.device)
        counts = full if lengths is None else self.tokens.count(lengths)
        return TranscriberOutput(self.forward_decoder(encoded, padding, units), self.forward_ctc(encoded), counts)

    def forward_decoder(self, encoded: Tensor, padding: Tensor | None, units: Tensor) -> Tensor:
        """Logits of each unit and the end by teacher forcing, from the outputs of `encode`: -> (B, L + 1, U + 1)."""
        return self.head(self.decoder(self.embedded(units), encoded, source_padding=padding))

    def forward_ctc(self, encoded: Tensor) -> Tensor | None:
        """CTC logits of encoded tokens: (B, T, D) -> (B, T, U + 1); `None` without a CTC head."""
        return None if self.ctc_head is None else self.ctc_head(encoded)

    def embedded(self, units: Tensor) -> Tensor:
        """Embeddings of the start symbol and the units, the input of the decoder: (B, L) -> (B, L + 1, D)."""
        return self.embedding(F.pad(units.clamp(min=0), (1, 0), value=self.start_unit))

    def start(self, encoded: Tensor, padding: Tensor | None = None) -> DecoderCache:
        """The decoder's cache before the first step, whose units are `start_unit`, from the outputs of `encode`."""
        return self.decoder.start(encoded, padding)

    def step(self, units: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Log-probabilities of the next unit or the end after these units, and the cache after them.

        Shape:
            (B,) -> (B, U + 1)
        """
        embedded = self.embedding(units.to(self.embedding.weight.device))
        decoded, cache = self.decoder.step(embedded[:, None], cache)
        return self.head(decoded[:, 0]).log_softmax(-1), cache

    def cross_attention(self, encoded: Tensor, padding: Tensor | None, units: Tensor) -> Tensor:
        """Cross-attention weights of every decoder block and head, in evaluation mode.

        Row i belongs to unit i, the last row to the end.

        Args:
            encoded: Encoded tokens, from `encode`.
            padding: True for valid tokens, from `encode`; `None` if all are valid.
            units: Units of the transcripts, padded as in `forward`.

        Shape:
            (B, T, D), (B, T), (B, L) -> (decoder blocks, B, H, L + 1, T)
        """
        return self.decoder.cross_weights(self.embedded(units), encoded, padding)

    @property
    def context_ms(self) -> dict[str, float | None]:
        """Context of the encoder, as in `SpeechEncoder`; `delay_ms` is `None`: the decoder needs the full utterance."""
        return {**super().context_ms, "delay_ms": None}


def make_decoder(
    decoder: DecoderConfig | nn.Module | None, encoder: EncoderConfig | nn.Module, width: int, positions: Positions
) -> nn.Module:
    """The decoder of a model of width D: a transformer decoder with these settings, or the given module.

    Args:
        decoder: Settings or a module; `None` is like the encoder.
        encoder: Settings or the module of the encoder.
        width: Model width D.
        positions: Positions of a transformer decoder.

    Raises:
        InputError: If a module is not a decoder, or is of another width.
    """
    if not isinstance(decoder, nn.Module):
        like = EncoderConfig() if isinstance(encoder, nn.Module) else EncoderConfig.of(encoder)
        return Decoder(width, DecoderConfig.like(like) if decoder is None else decoder, positions=positions)
    name = type(decoder).__name__
    if not all(hasattr(decoder, part) for part in ("width", "start", "step", "cross_weights")):
        raise InputError(f"decoder={name} is not a decoder: it has no width, start, step and cross_weights")
    if decoder.width != width:
        raise InputError(f"decoder={name} has width={decoder.width}, but the tokens have width={width}")
    return decoder
