"""Masked pre-training of a speech encoder: waveform -> tokens, some masked -> encoder -> codes of the masked tokens.

Shapes: B batch, N samples, F log-mel frames, M mel bins, T tokens, S stride of the tokens in frames, D model width,
K masked tokens of the batch, C codes, P numbers of a projection.
"""

import zlib
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from vitspeech.attention import EncoderConfig
from vitspeech.errors import InputError, check_fraction, check_number
from vitspeech.frontends import SpeechFrontend
from vitspeech.models.speech import Positions, SpeechEncoder

PROJECTION = 16  # numbers of a projected token and of a code, as in the paper


class MaskedCodes(NamedTuple):
    """What a `MaskedSpeechModel` says about the masked tokens of a batch, utterance by utterance.

    Attributes:
        logits: Of each code, for each masked token (K, C).
        codes: The true codes (K,).
        mask: Which tokens are masked, on the host (B, T); padding is not.
    """

    logits: Tensor
    codes: Tensor
    mask: Tensor


class MaskedSpeechModel(SpeechEncoder):
    """Learns to predict masked speech from the speech around it, without transcripts: BEST-RQ.

    Chiu et al. 2022 (arXiv:2202.01855). Spans of tokens are masked: their log-mel frames become 0, the mean, before the
    stem. A linear layer on the encoder predicts the code of each masked token. The code is found from the unmasked
    frames by a random projection, as the nearest of C random vectors by cosine; neither projection nor vectors are
    trained. `--init_from` takes `tokens` and `encoder` from it for a `SpeechRecognizer` or another speech model.

    The frames of token i are the S middle ones of those that it covers, from i·S + (R - S) // 2 on, as in
    `SpeechLabeler`; so the frames of consecutive tokens are consecutive.

    In training masks are drawn from torch's global generator. In evaluation mode the mask of an utterance depends on
    its samples alone, so that it is the same in every epoch and every run.

    Args:
        codes: Number of codes C.
        tokens: Turns waveforms into tokens; its `width` is the model width D. `None` is `SpeechFrontend()`.
        encoder: Settings of self-attention, also as a dictionary; or an encoder, as in `SpeechEncoder`.
        positions: As in `SpeechEncoder`.
        masked: Expected fraction of masked tokens in a long utterance. At least one span begins in each utterance.
        span_ms: Length of a masked span; spans may overlap.

    Shape:
        samples within ±1 (B, N), lengths (B,) or None -> `MaskedCodes`
    """

    def __init__(
        self,
        codes: int = 512,
        tokens: SpeechFrontend | None = None,
        encoder: EncoderConfig | nn.Module = EncoderConfig(),
        *,
        positions: Positions = "rotary",
        masked: float = 0.4,
        span_ms: float = 200.0,
    ) -> None:
        super().__init__(tokens, encoder, positions=positions)
        check_number("codes", codes, 2, 65_536)
        check_fraction("masked", masked)
        token_ms = self.tokens.milliseconds(self.tokens.hop_samples)
        check_number("span_ms", span_ms, token_ms, 60_000)
        self.stride, reach = self.tokens.frames.stride, self.tokens.frames.receptive_field
        if self.stride > reach:
            raise InputError(f"stride={self.stride} is above the {reach} frames of a token: some frames have no token")
        self.span = round(span_ms / token_ms)
        self.start_probability = 1 - (1 - masked) ** (1 / self.span)
        self.first_frame = (reach - self.stride) // 2
        projection = torch.randn(self.stride * self.tokens.log_mel.mels, PROJECTION)
        self.register_buffer("projection", projection)
        self.register_buffer("codebook", F.normalize(torch.randn(codes, PROJECTION), dim=1))
        self.code_head = nn.Linear(self.tokens.width, codes)

    def forward(self, waveforms: Tensor, lengths: Tensor | None = None) -> MaskedCodes:
        """Samples within ±1 (B, N), lengths (B,) or None -> `MaskedCodes` of the masked tokens."""
        lengths = self.check_lengths(waveforms, lengths)
        frames, mask = self.tokens.log_mel(waveforms), self.draw_masks(waveforms, lengths)
        rows = mask.flatten().nonzero().flatten().to(frames.device, non_blocking=True)
        tokens = self.tokens.from_frames(self.mask_frames(frames, mask), lengths)
        encoded, _ = self.encode_tokens(tokens, lengths)
        return MaskedCodes(
            self.code_head(encoded.flatten(0, 1)[rows]),
            self.quantize(self.frames_of_tokens(frames, mask.shape[1]).flatten(0, 1)[rows]),
            mask,
        )

    def draw_masks(self, waveforms: Tensor, lengths: Tensor | None) -> Tensor:
        """Which tokens are masked: (B, N), (B,) or None -> boolean, on the host (B, T)."""
        samples = [waveforms.shape[1]] * len(waveforms) if lengths is None else lengths.tolist()
        counts = self.tokens.count(torch.tensor(samples)).tolist()
        if self.training:
            return pad_sequence([self.draw_mask(count) for count in counts], True)
        sounds = [row[:length] for row, length in zip(waveforms.detach().float().cpu(), samples, strict=True)]
        seeds = [zlib.crc32(sound.numpy().tobytes()) for sound in sounds]
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        return pad_sequence(list(map(self.draw_mask, counts, generators)), True)

    def draw_mask(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Which tokens of an utterance are masked, at least one: boolean (T,)."""
        starts = torch.rand(count, generator=generator) < self.start_probability
        starts.index_fill_(0, torch.randint(count, (1,), generator=generator), True)
        begun = starts.cumsum(0)  # spans that began at or before each token; those that ended are as many one span ago
        return begun > F.pad(begun, (self.span, 0))[:count]

    def mask_frames(self, frames: Tensor, mask: Tensor) -> Tensor:
        """The frames (B, F, M), those of the masked tokens set to 0."""
        masked = mask.repeat_interleave(self.stride, dim=1)
        masked = F.pad(masked, (self.first_frame, frames.shape[1] - self.first_frame - masked.shape[1]))
        return frames.masked_fill(masked.to(frames.device, non_blocking=True)[..., None], 0)

    def frames_of_tokens(self, frames: Tensor, count: int) -> Tensor:
        """The frames of the first tokens, side by side: (B, F, M) -> (B, count, S · M)."""
        whole = frames[:, self.first_frame : self.first_frame + count * self.stride]
        return whole.unflatten(1, (count, self.stride)).flatten(2)

    @torch.no_grad()
    def quantize(self, frames: Tensor) -> Tensor:
        """The codes of tokens, from their frames: (K, S · M) -> (K,)."""
        with torch.autocast(frames.device.type, enabled=False):  # half precision would choose other codes
            return (frames @ self.projection @ self.codebook.T).argmax(-1)
