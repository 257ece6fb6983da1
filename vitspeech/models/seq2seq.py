"""What all encoder-decoders share: the decoder with its embedding and its head, teacher forcing, and single steps.

`Seq2Seq` is that of symbols: symbols -> embeddings -> encoder -> autoregressive decoder -> units.

Shapes: B batch, N input symbols, T tokens, D model width, H heads, U units, L units of a transcript.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.attention import Decoder, DecoderConfig, EncoderConfig
from vitspeech.attention.positions import LearnedPositions
from vitspeech.errors import InputError, check_number
from vitspeech.frontends import TextTokens
from vitspeech.models.speech import Positions, check_part, make_encoder


class TranscriberOutput(NamedTuple):
    """Output of an encoder-decoder for inputs with known transcripts.

    Attributes:
        logits: Row i is for unit i, the row after the last unit for the end, which is class U (B, L + 1, U + 1).
        ctc_logits: One row per token; class U is the blank (B, T, U + 1). `None` without a CTC head.
        tokens: Number of valid tokens of each input (B,), on the device of the lengths.
    """

    logits: Tensor
    ctc_logits: Tensor | None
    tokens: Tensor


class EncoderDecoder(nn.Module):
    """The base class of encoder-decoders, such as `SpeechTranscriber` and `Seq2Seq`.

    A subclass has `tokens` with a `count`, and implements `encode`; its constructor calls `add_decoder` last. These are
    what `vitspeech.Transcription` and the searches call: `encode`, `forward_decoder`, `forward_ctc`, `start`, `step`.

    Attributes:
        start_unit: Index of the start symbol, which precedes the first unit of a transcript: U.
    """

    def add_decoder(
        self,
        units: int,
        decoder: DecoderConfig | nn.Module | None,
        encoder: EncoderConfig | nn.Module,
        *,
        positions: Positions,
        tied: bool = False,
        ctc: bool = False,
    ) -> None:
        """Add the decoder, the embedding of its inputs, and the output heads.

        Args:
            units: Number of units U, at least 1.
            decoder: As in `make_decoder`.
            encoder: As in `make_decoder`.
            positions: Positions of a transformer decoder.
            tied: Whether the head shares the weight of the embedding (Vaswani et al. 2017, arXiv:1706.03762, sec. 3.4;
                Press and Wolf 2017, arXiv:1608.05859). The start and the end then share a row. The weight is
                initialized from N(0, 1/D), and embeddings are multiplied by √D.
            ctc: Whether there is a CTC head.
        """
        check_number("units", units, 1)
        width = self.tokens.width
        self.start_unit, self.embedding_scale = units, math.sqrt(width) if tied else 1.0
        self.embedding = nn.Embedding(units + 1, width)
        self.decoder = make_decoder(decoder, encoder, width, positions)
        self.head = nn.Linear(width, units + 1)
        self.ctc_head = nn.Linear(width, units + 1) if ctc else None
        if tied:
            nn.init.normal_(self.embedding.weight, std=width**-0.5)
            self.head.weight = self.embedding.weight

    def encode(self, inputs: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Encoded tokens (B, T, D), and a mask of the valid ones (B, T) or `None` if all are."""
        raise NotImplementedError(f"{type(self).__name__} does not implement encode")

    def forward(self, inputs: Tensor, lengths: Tensor | None, units: Tensor) -> TranscriberOutput:
        """Teacher forcing: predict each unit from the true ones before it.

        Args:
            inputs: What `encode` takes, such as waveforms (B, N).
            lengths: The length of each input (B,); `None` uses full rows.
            units: Units of the transcripts, padded at the end with -1 or any unit (B, L).

        Shape:
            inputs (B, N), lengths (B,) or None, units (B, L) -> `TranscriberOutput`
        """
        encoded, padding = self.encode(inputs, lengths)
        if lengths is not None:
            counts = self.tokens.count(lengths)
        elif padding is not None:
            counts = padding.sum(1)
        else:
            counts = torch.full((len(encoded),), encoded.shape[1], device=encoded.device)
        return TranscriberOutput(self.forward_decoder(encoded, padding, units), self.forward_ctc(encoded), counts)

    def forward_decoder(self, encoded: Tensor, padding: Tensor | None, units: Tensor) -> Tensor:
        """Logits of each unit and the end by teacher forcing, from the outputs of `encode`: -> (B, L + 1, U + 1)."""
        return self.head(self.decoder(self.embedded(units), encoded, source_padding=padding))

    def forward_ctc(self, encoded: Tensor) -> Tensor | None:
        """CTC logits of encoded tokens: (B, T, D) -> (B, T, U + 1); `None` without a CTC head."""
        return None if self.ctc_head is None else self.ctc_head(encoded)

    def embedded(self, units: Tensor) -> Tensor:
        """Embeddings of the start symbol and the units, the input of the decoder: (B, L) -> (B, L + 1, D)."""
        return self.embed(F.pad(units.clamp(min=0), (1, 0), value=self.start_unit))

    def embed(self, units: Tensor) -> Tensor:
        """Embeddings as the decoder takes them: units (…) -> (…, D)."""
        return self.embedding_scale * self.embedding(units)

    def longest_output(self, tokens: int) -> int:
        """The maximum number of units of a transcript in a search, for an input with this number of tokens.

        A unit of speech takes at least one token.
        """
        return self.within_positions(tokens)

    def within_positions(self, units: int) -> int:
        """A number of units, limited to what a decoder with learned positions can output."""
        rows = learned_rows(self.decoder)
        return units if rows is None else min(units, rows - 1)  # the first position is that of `start_unit`

    def start(self, encoded: Tensor, padding: Tensor | None = None) -> Any:
        """The decoder's cache before the first step, whose units are `start_unit`, from the outputs of `encode`."""
        return self.decoder.start(encoded, padding)

    def step(self, units: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """Log-probabilities of the next unit or the end after these units, and the cache after them.

        Shape:
            (B,) -> (B, U + 1)
        """
        embedded = self.embed(units.to(self.embedding.weight.device))
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


def make_decoder(
    decoder: DecoderConfig | nn.Module | None, encoder: EncoderConfig | nn.Module, width: int, positions: Positions
) -> nn.Module:
    """The decoder of a model of width D: a transformer with these settings (`None`: as the encoder), or the module."""
    if not isinstance(decoder, nn.Module):
        like = EncoderConfig() if isinstance(encoder, nn.Module) else EncoderConfig.of(encoder)
        return Decoder(width, DecoderConfig.like(like) if decoder is None else decoder, positions=positions)
    return check_part("decoder", decoder, ("width", "start", "step", "cross_weights"), width)


def learned_rows(module: nn.Module) -> int | None:
    """The number of tokens for which an encoder or a decoder has learned positions; `None` if it needs none."""
    positions = getattr(module, "positions", None)
    return len(positions.table) if isinstance(positions, LearnedPositions) else None


class Seq2Seq(EncoderDecoder):
    """An encoder-decoder for sequences of symbols: the transformer of Vaswani et al. 2017 (arXiv:1706.03762).

    The defaults are pre-norm blocks with sinusoidal positions. The paper's own are post-norm blocks with ReLU:
    `encoder: {norm: post, activation: relu, …}`, and `tied`. With `vitspeech.RecurrentEncoder` and
    `vitspeech.RecurrentDecoder` it is the model of Bahdanau et al. 2015 (arXiv:1409.0473).

    `vitspeech.Transcription` trains it.

    Args:
        units: Number of output symbols U, at least 1.
        symbols: Number of input symbols; 0 is as many as output symbols.
        width: Model width D.
        encoder: Settings of self-attention, also as a dictionary; or an encoder of width D.
        decoder: Settings of the decoder, or a decoder of width D, as in `SpeechTranscriber`.
        positions: Positions of encoder and decoder: `sinusoidal` or `learned` are added to the embeddings, `relative`
            or `rotary` act in self-attention; with `None` the encoder is not aware of order. Not used by modules.
        tied: Whether the head shares the weight of the decoder's embedding (sec. 3.4).

    Attributes:
        start_unit: Index of the start symbol, which precedes the first unit of an output: U.
        ctc_head: Always `None`.

    Shape:
        symbols, padded at the end with -1 (B, N), lengths (B,) or None, units (B, L) -> `TranscriberOutput`
    """

    def __init__(
        self,
        units: int = 0,
        symbols: int = 0,
        width: int = 128,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        decoder: DecoderConfig | nn.Module | None = None,
        positions: Positions = "sinusoidal",
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.tokens = TextTokens(symbols or units, width)
        self.encoder = make_encoder(encoder, width, positions)
        self.add_decoder(units, decoder, encoder, positions=positions, tied=tied)

    def longest_output(self, tokens: int) -> int:
        """The maximum length of an output in a search: twice the length of its input, plus a few units."""
        return self.within_positions(2 * tokens + 8)

    def encode(self, symbols: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Encoded symbols, and a mask of the valid ones.

        Args:
            symbols: Indices of the symbols, padded at the end with -1 or, if there are lengths, with any symbol.
            lengths: Number of symbols of each sequence, kept on the host; `None` counts those before the padding.

        Shape:
            (B, N), (B,) or None -> (B, T, D), true for valid symbols (B, T)
        """
        lengths = (symbols >= 0).sum(1).cpu() if lengths is None else lengths.cpu()
        longest, shortest = max(lengths.tolist(), default=0), min(lengths.tolist(), default=0)
        if shortest < 1:
            raise InputError(f"sequence {lengths.tolist().index(shortest)} of the batch is empty")
        symbols = symbols[:, :longest]
        places = torch.arange(longest, device=symbols.device)
        padding = places < lengths.to(symbols.device, non_blocking=True)[:, None]
        return self.encoder(self.tokens(symbols.masked_fill(~padding, -1)), padding), padding
