"""The speech models: waveform -> tokens -> encoder, then one label, a label per frame, or a sequence of units.

Shapes: B batch, N samples, T tokens, D model width, W features before the head, U units, S stride of the tokens in
log-mel frames, R frames covered by a token, F = T · S labeled frames.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from vitspeech.attention import ClassToken, Encoder, EncoderConfig
from vitspeech.attention.pooling import make_pooling
from vitspeech.errors import InputError
from vitspeech.frontends import SpeechFrontend
from vitspeech.models.classifier import Classifier, encoder_stages

Positions = Literal["sinusoidal", "learned", "relative", "rotary"] | None


class SpeechEncoder(nn.Module):
    """Speech tokens and an encoder: full or truncated self-attention (Yeh et al. 2019, arXiv:1910.12977), or a module.

    A module in place of attention is `vitspeech.RecurrentEncoder`, `vitspeech.WindowMLP` or one of your own: it maps
    tokens (B, T, D) and their padding (B, T) or `None` to (B, T, D), and has the attributes `width` (D),
    `receptive_field` (past context and look-ahead in tokens, `None` if unlimited) and, if it can be streamed, a
    method `stream()`.

    With a limited look-ahead it can be streamed (`vitspeech.stream`). `context_ms` is the context of the whole encoder.

    Args:
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechFrontend()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder of width D.
        positions: `sinusoidal` or `learned` positions are added to the tokens, `rotary` or `relative` ones act in
            attention; with `None` only the stem of the tokens is aware of order. Not used by an encoder that is a
            module.
    """

    def __init__(
        self,
        tokens: SpeechFrontend | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        positions: Positions = "rotary",
    ) -> None:
        super().__init__()
        self.tokens = SpeechFrontend() if tokens is None else tokens
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
        """
        lengths = self.check_lengths(waveforms, lengths)
        return self.without_padding(self.tokens(waveforms, lengths), lengths)

    def check_lengths(self, waveforms: Tensor, lengths: Tensor | None) -> Tensor | None:
        """The lengths of `encode` on the host."""
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
        back, ahead = (None if reach is None else reach * hop for reach in self.encoder.receptive_field)
        window = self.tokens.milliseconds(self.tokens.window_samples)
        return {"look_back_ms": back, "look_ahead_ms": ahead, "delay_ms": None if ahead is None else ahead + window}


def make_encoder(encoder: EncoderConfig | nn.Module, width: int, positions: Positions) -> nn.Module:
    """The encoder of a model of width D: attention with these settings, or the given module."""
    if not isinstance(encoder, nn.Module):
        return Encoder(width, encoder, positions=positions)
    return check_part("encoder", encoder, ("width", "receptive_field"), width)


def check_part(argument: str, part: nn.Module, attributes: Sequence[str], width: int) -> nn.Module:
    """The part if it has these attributes and the width of the tokens; else an InputError."""
    name = type(part).__name__
    if not all(hasattr(part, attribute) for attribute in attributes):
        raise InputError(f"{argument}={name} is no {argument}: it needs {', '.join(attributes)}")
    if part.width != width:
        raise InputError(f"{argument}={name} has width={part.width}, but the tokens have width={width}")
    return part


class SpeechClassifier(SpeechEncoder, Classifier):
    """A keyword transformer (Berg et al. 2021, arXiv:2104.00769) with full or truncated self-attention.

    With a limited `right` in the encoder it can be streamed (`vitspeech.stream`).

    Args:
        classes: Number of labels; 0 builds no head, and `forward` returns pooled features (B, W).
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechFrontend()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        pooling: `mean`, `self_attentive`, or a pooling module of width D.
        positions: As in `SpeechEncoder`.

    Shape:
        samples within ±1 (B, N) -> logits (B, classes)
    """

    def __init__(
        self,
        classes: int = 0,
        tokens: SpeechFrontend | None = None,
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
        self.num_features = self.pooling.factor * width
        self.head = nn.Linear(self.num_features, classes) if classes else nn.Identity()

    def stages(self, waveforms: Tensor) -> tuple[Tensor, Sequence[nn.Module], Callable[[Tensor], Tensor]]:
        return encoder_stages(self.encoder, self.valid_tokens(waveforms)[0])

    def forward_head(self, tokens: Tensor, pre_logits: bool = False) -> Tensor:
        """Pool and classify: (B, T, D) -> (B, classes), or pooled features (B, W) with `pre_logits`."""
        features = self.pooling(tokens)
        return features if pre_logits else self.head(features)

    def forward(self, waveforms: Tensor) -> Tensor:
        """Samples within ±1 (B, N) -> logits (B, classes)."""
        return self.forward_head(self.forward_features(waveforms))

    def forward_frames(self, waveforms: Tensor) -> Tensor:
        """Logits of every token: (B, N) -> (B, T, classes). With mean pooling, `forward` is their mean."""
        return self.frame_logits(self.forward_features(waveforms))

    def frame_logits(self, tokens: Tensor) -> Tensor:
        """Logits of encoded tokens: (B, T, D) -> (B, T, classes)."""
        if self.pooling.factor != 1:
            raise InputError(f"the head takes {self.pooling.factor} hops of the pooling; it cannot classify one token")
        return self.head(tokens)


class SpeechLabeler(SpeechEncoder):
    """One label for every 10 ms of an utterance: each token classifies the S middle frames of the R that it covers.

    Token i covers log-mel frames i·S .. i·S + R - 1 and classifies S of them, from i·S + (R - S) // 2 on, so that the
    frames of consecutive tokens are consecutive. Labeled frame f begins at `first_frame_ms` + f · `frame_ms`. The few
    frames before the first and after the last have no label.

    With a limited `right` in the encoder it can be streamed (`vitspeech.stream`), S rows per token.

    Args:
        classes: Number of labels, including one for frames without a word. 0 builds no head, and tokens (B, T, D) are
            returned in place of logits.
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechFrontend()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        positions: As in `SpeechEncoder`.

    Shape:
        samples within ±1 (B, N), lengths (B,) or None -> logits (B, F, classes), frames per utterance (B,), on
        the device of the lengths
    """

    def __init__(
        self,
        classes: int = 0,
        tokens: SpeechFrontend | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        positions: Positions = "rotary",
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        self.stride = self.tokens.frames.stride
        self.head = nn.Linear(self.tokens.width, self.stride * classes) if classes else None

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Samples within ±1 (B, N), lengths (B,) or None -> logits (B, F, classes), frames per utterance (B,)."""
        encoded, padding = self.encode(waveforms, lengths)
        logits = self.frame_logits(encoded)
        if padding is None:
            return logits, torch.full((len(logits),), logits.shape[1], device=logits.device)
        return logits, self.tokens.count(lengths) * (logits.shape[1] // encoded.shape[1])

    def forward_frames(self, waveforms: Tensor) -> Tensor:
        """Logits of every frame of unpadded waveforms: (B, N) -> (B, F, classes)."""
        return self.frame_logits(self.forward_features(waveforms))

    def frame_logits(self, tokens: Tensor) -> Tensor:
        """Logits of the frames of encoded tokens: (B, T, D) -> (B, F, classes)."""
        if self.head is None:
            return tokens
        return self.head(tokens).unflatten(-1, (self.stride, -1)).flatten(1, 2)

    @property
    def frame_ms(self) -> float:
        """Milliseconds from one labeled frame to the next."""
        return self.tokens.milliseconds(self.tokens.log_mel.hop_samples)

    @property
    def first_frame_ms(self) -> float:
        """Start of the first labeled frame in milliseconds.

        Log-mel frames overlap; a labeled frame is the middle of its window, one hop long.
        """
        window, hop = self.tokens.log_mel.window_samples, self.tokens.log_mel.hop_samples
        first = (self.tokens.frames.receptive_field - self.stride) // 2
        return self.tokens.milliseconds(first * hop + (window - hop) / 2)


class SpeechRecognizer(SpeechEncoder):
    """An attention encoder with connectionist temporal classification: transcripts of words or characters.

    Graves et al. 2006 (doi:10.1145/1143844.1143891). With a limited `right` in the encoder it can be streamed, and the
    transcript equals that of the full recording (`vitspeech.TranscriptStream`).

    Args:
        units: Number of words or characters U; the last class, U, is the blank. 0 builds no head, and tokens (B, T, D)
            are returned in place of logits.
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechFrontend()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        positions: As in `SpeechEncoder`.

    Shape:
        samples within ±1 (B, N), lengths (B,) or None -> logits (B, T, U + 1), tokens per utterance (B,), on the
        device of the lengths
    """

    def __init__(
        self,
        units: int = 0,
        tokens: SpeechFrontend | None = None,
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

        Shape:
            (B, N), (B,) or None -> logits (B, T, U + 1), tokens per utterance (B,)
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
