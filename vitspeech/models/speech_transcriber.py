"""The speech transcriber: waveform -> tokens -> attention encoder -> attention decoder -> units, one after the other.

Shapes: B batch, N samples, T tokens, D model width, H heads, U units, L units of a transcript.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitspeech.attention import Decoder, DecoderCache, DecoderConfig, EncoderConfig
from vitspeech.frontends import SpeechTokens
from vitspeech.models.speech_encoder import SpeechEncoder


class TranscriberOutput(NamedTuple):
    """What a transcriber says of utterances whose transcript it is given.

    Attributes:
        logits: Row i is for unit i, the row after the last unit for the end, which is class U (B, L + 1, U + 1).
        ctc_logits: A row a token; class U is the blank (B, T, U + 1). `None` without a CTC head.
        tokens: Valid tokens of each utterance (B,).
    """

    logits: Tensor
    ctc_logits: Tensor | None
    tokens: Tensor


class SpeechTranscriber(SpeechEncoder):
    """An encoder and a decoder that attends to it (Chan et al. 2016, arXiv:1508.01211), both of attention.

    Vaswani et al. 2017 (arXiv:1706.03762). With `ctc` a second head reads the encoder's tokens, to be trained and
    decoded jointly (Kim, Hori and Watanabe 2017, arXiv:1609.06773). With `left` and `right` the encoder's attention is
    truncated, as in `SpeechClassifier`; the decoder attends to the whole utterance in any case.

    Args:
        units: Number of units U: words or characters.
        tokens: What makes tokens of waveforms, and by its `width` the model width D; `None` is `SpeechTokens()`.
        encoder: Depth, heads, contexts and so on; `None` is `EncoderConfig()`.
        decoder: Settings of the decoder; `None` is two blocks with the heads, MLP ratio, dropout, score and
            normalizer of the encoder.
        ctc: Whether there is a CTC head.
        positions: Of the encoder: `rotary` or `relative` tell attention the distance; `None` leaves order to the
            tokens' stem. The decoder's are rotary.

    Attributes:
        start_unit: What stands before a transcript's first unit: U.

    Shape:
        samples within ±1 (B, N), lengths in samples (B,) or None, given units (B, L) -> `TranscriberOutput`

    Raises:
        ValueError: If a number is below 1, `heads` does not divide the width, a name is unknown, or an utterance is too
            short for a token.
    """

    def __init__(
        self,
        units: int = 0,
        tokens: SpeechTokens | None = None,
        encoder: EncoderConfig | None = None,
        *,
        decoder: DecoderConfig | None = None,
        ctc: bool = False,
        positions: Literal["relative", "rotary"] | None = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        if units < 1:
            raise ValueError(f"units={units} is below 1")
        width = self.tokens.width
        self.start_unit = units
        self.embedding = nn.Embedding(units + 1, width)
        decoder = DecoderConfig.like(EncoderConfig.of(encoder)) if decoder is None else decoder
        self.decoder = Decoder(width, decoder, positions="rotary")
        self.head = nn.Linear(width, units + 1)
        self.ctc_head = nn.Linear(width, units + 1) if ctc else None

    def forward(self, waveforms: Tensor, lengths: Tensor | None, given: Tensor) -> TranscriberOutput:
        """Teacher forcing: each unit is predicted from the true ones before it.

        Args:
            waveforms: Samples within ±1 (B, N).
            lengths: Samples of each utterance (B,); `None` is all.
            given: The transcripts' units, padded at their ends by -1 or any unit (B, L).
        """
        encoded, padding = self.encode(waveforms, lengths)
        logits = self.head(self.decoder(self.embedded(given), encoded, source_padding=padding))
        whole = torch.full((len(encoded),), encoded.shape[1], device=encoded.device)
        return TranscriberOutput(logits, self.forward_ctc(encoded), whole if padding is None else padding.sum(1))

    def forward_ctc(self, encoded: Tensor) -> Tensor | None:
        """CTC's logits of what tokens have become: (B, T, D) -> (B, T, U + 1); `None` without a CTC head."""
        return None if self.ctc_head is None else self.ctc_head(encoded)

    def embedded(self, given: Tensor) -> Tensor:
        """What the decoder is given: the start and the units, (B, L) -> (B, L + 1, D)."""
        return self.embedding(F.pad(given.clamp(min=0), (1, 0), value=self.start_unit))

    def start(self, encoded: Tensor, padding: Tensor | None = None) -> DecoderCache:
        """The cache before the first step, whose units are all `start_unit`: what `encode` gave -> its cache."""
        return self.decoder.start(encoded, padding)

    def step(self, units: Tensor, cache: DecoderCache) -> tuple[Tensor, DecoderCache]:
        """Log-probabilities of what comes after the units just said, and the cache after them.

        Shape:
            (B,) -> (B, U + 1)
        """
        given = self.embedding(units.to(self.embedding.weight.device))
        decoded, cache = self.decoder.step(given[:, None], cache)
        return self.head(decoded[:, 0]).log_softmax(-1), cache

    def cross_attention(self, encoded: Tensor, padding: Tensor | None, units: Tensor) -> Tensor:
        """The weights of every decoder block and head: from which tokens each unit was read, for a picture.

        Row i is that of unit i, the last row that of the end. To be called in evaluation mode.

        Args:
            encoded: What `encode` gave.
            padding: Likewise; `None` where all tokens are valid.
            units: The transcripts' units, padded at their ends as in `forward`.

        Shape:
            (B, T, D), (B, T), (B, L) -> (decoder blocks, B, H, L + 1, T)
        """
        x, weights = self.embedded(units), []
        for block in self.decoder.blocks:
            attention = block.cross_attention
            x = x + block.attention(block.attention_norm(x))
            query, key, value = attention.project(block.cross_norm(x), encoded)
            attended, shares = attention.attend(query, key, value, attention.allowed(query, key, padding, None))
            x = x + attention.output(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.mlp_norm(x))
            weights.append(shares)
        return torch.stack(weights)

    @property
    def context_ms(self) -> dict[str, float | None]:
        """How far a token of the encoder looks back and ahead of itself; `None` is without a limit.

        There is no `delay_ms`: the decoder attends to the whole utterance.
        """
        return {**super().context_ms, "delay_ms": None}
