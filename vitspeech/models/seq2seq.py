"""Symbols in, symbols out: symbols -> embeddings -> encoder -> autoregressive decoder -> units.

Shapes: B batch, N input symbols, D model width, U units, L units of an output.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention import DecoderConfig, EncoderConfig
from vitspeech.errors import InputError
from vitspeech.frontends import TextTokens
from vitspeech.models.encoder_decoder import EncoderDecoder
from vitspeech.models.speech_encoder import Positions, make_encoder


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

    Raises:
        InputError: If a number is below 1, the heads do not divide the width, a name is unknown, a module is of another
            width, or a sequence is empty.
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
        if units < 1:
            raise InputError(f"units={units} is below 1")
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

        Raises:
            InputError: If a sequence is empty, or the lengths do not match the symbols.
        """
        lengths = (symbols >= 0).sum(1).cpu() if lengths is None else lengths.cpu()
        longest, shortest = max(lengths.tolist(), default=0), min(lengths.tolist(), default=0)
        if lengths.shape != symbols.shape[:1] or longest > symbols.shape[1]:
            raise InputError(f"lengths {lengths.tolist()} do not fit symbols of shape {tuple(symbols.shape)}")
        if shortest < 1:
            raise InputError(f"sequence {lengths.tolist().index(shortest)} of the batch is empty")
        symbols = symbols[:, :longest]
        places = torch.arange(longest, device=symbols.device)
        padding = places < lengths.to(symbols.device, non_blocking=True)[:, None]
        return self.encoder(self.tokens(symbols.masked_fill(~padding, -1)), padding), padding
