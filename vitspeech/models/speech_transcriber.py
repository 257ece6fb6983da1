"""The speech transcriber: waveform -> tokens -> encoder -> autoregressive decoder -> units.

Shapes: B batch, N samples, T tokens, D model width, U units, L units of a transcript.
"""

from torch import nn

from vitspeech.attention import DecoderConfig, EncoderConfig
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models.seq2seq import EncoderDecoder
from vitspeech.models.speech import Positions, SpeechEncoder, SpeechRecognizer


class SpeechTranscriber(SpeechEncoder, EncoderDecoder):
    """An encoder-decoder for speech (Chan et al. 2016, arXiv:1508.01211; Vaswani et al. 2017, arXiv:1706.03762).

    With `ctc` a second head classifies the tokens of the encoder, for joint training and decoding (Kim, Hori and
    Watanabe 2017, arXiv:1609.06773). The encoder's attention may be truncated; the decoder attends to the full
    utterance in any case.

    Args:
        units: Number of words or characters U, at least 1.
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechFrontend()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        decoder: Settings of the decoder; `None` is two blocks like those of the encoder, see `DecoderConfig.like`. Or a
            decoder of width D with the methods of `vitspeech.Decoder`, such as `vitspeech.RecurrentDecoder`.
        ctc: Whether there is a CTC head.
        positions: Positions of the encoder, as in `SpeechEncoder`.
        decoder_positions: Positions of the decoder, with the same choices; not used by a decoder that is a module.
        tied: Whether the decoder's head shares the weight of its embedding (Vaswani et al. 2017, sec. 3.4).

    Attributes:
        start_unit: Index of the start symbol, which precedes the first unit of a transcript: U.

    Shape:
        samples within ±1 (B, N), lengths in samples (B,) or None, units (B, L) -> `TranscriberOutput`
    """

    def __init__(
        self,
        units: int = 0,
        tokens: SpeechFrontend | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        decoder: DecoderConfig | nn.Module | None = None,
        ctc: bool = False,
        positions: Positions = "rotary",
        decoder_positions: Positions = "rotary",
        tied: bool = False,
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        self.add_decoder(units, decoder, encoder, positions=decoder_positions, tied=tied, ctc=ctc)

    def recognizer(self) -> SpeechRecognizer:
        """The encoder with its CTC head, which they share. It streams if the look-ahead of the encoder is limited.

        Raises:
            InputError: If there is no CTC head.
        """
        if self.ctc_head is None:
            raise InputError("the transcriber has no CTC head; train it with ctc: true")
        recognizer = SpeechRecognizer(0, self.tokens, self.encoder)
        recognizer.head = self.ctc_head
        return recognizer.train(self.training)

    @property
    def context_ms(self) -> dict[str, float | None]:
        """Context of the encoder, as in `SpeechEncoder`; `delay_ms` is `None`: the decoder needs the full utterance."""
        return {**super().context_ms, "delay_ms": None}
