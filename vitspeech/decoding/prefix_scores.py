"""How likely CTC finds it that a transcript begins so: the probability of a prefix, extended unit by unit.

Shapes: B utterances, T tokens, C classes, of which the last is the blank, R rows (hypotheses, of any utterances),
M rows chosen among the extended ones.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PrefixState:
    """One prefix a row, and how its tokens can have been spent up to each moment; moment 0 is before the first.

    Attributes:
        utterances: Whose prefix it is (R,).
        last: Its last unit (R,); -1 for an empty prefix.
        in_unit: Log-probability that the tokens so far spell the prefix and the newest is its last unit (T + 1, R).
        in_blank: The same where the newest is a blank (T + 1, R).
    """

    utterances: Tensor
    last: Tensor
    in_unit: Tensor
    in_blank: Tensor


class PrefixScores:
    """Prefix probabilities of CTC (Graves 2012, doi:10.1007/978-3-642-24797-2, sec. 7.5) for joint decoding.

    Watanabe et al. 2017 (doi:10.1109/JSTSP.2017.2763455, algorithm 2). The probability of a prefix is that of all
    transcripts that begin with it. `extend` gives it for every next unit at once without a loop, with memory for R · T
    · C numbers; `select` goes on with the chosen ones, in a loop over T.

    Args:
        log_probs: Log-probabilities of each token; the last class is the blank.
        tokens: Valid tokens of each utterance; `None` is all.

    Shape:
        log_probs (B, T, C), tokens (B,) or None

    Raises:
        ValueError: If the shapes do not fit, or an utterance has more tokens than T.
    """

    def __init__(self, log_probs: Tensor, tokens: Tensor | None = None) -> None:
        if log_probs.ndim != 3:
            raise ValueError(f"log_probs of shape {tuple(log_probs.shape)} is not (B, T, C)")
        # Half precision is too coarse for sums of hundreds of logarithms.
        log_probs = log_probs.detach().to(torch.promote_types(log_probs.dtype, torch.float32))
        self.batch, longest, self.classes = log_probs.shape
        if tokens is not None:
            if tokens.shape != (self.batch,) or (self.batch and not 0 <= tokens.min() <= tokens.max() <= longest):
                raise ValueError(f"tokens={tokens.tolist()} are not {self.batch} numbers within 0 .. {longest}")
            padded = torch.arange(longest, device=log_probs.device) >= tokens.to(log_probs.device)[:, None]
            # After its end an utterance says blank for sure: the last moment's sums are those of its own last token.
            log_probs = log_probs.masked_fill(padded[..., None], -torch.inf)
            log_probs[..., -1].masked_fill_(padded, 0.0)
        self.log_probs = log_probs

    def start(self, beam: int = 1) -> PrefixState:
        """Empty prefixes, `beam` of each utterance, one utterance after the other: R = B · beam rows."""
        device = self.log_probs.device
        utterances = torch.arange(self.batch, device=device).repeat_interleave(beam)
        blanks = self.log_probs[utterances, :, -1].T.cumsum(0)
        in_blank = torch.cat((torch.zeros_like(utterances, dtype=blanks.dtype)[None], blanks))
        return PrefixState(utterances, torch.full_like(utterances, -1), torch.full_like(in_blank, -torch.inf), in_blank)

    def extend(self, state: PrefixState) -> Tensor:
        """Log-probability of each row's prefix with each unit after it, and in the last column of the transcript.

        Column c is the sum over all transcripts that begin with prefix and c; the last column is the prefix alone, the
        whole transcript. The columns together are the prefix's own probability.

        Shape:
            -> (R, C)
        """
        either = torch.logaddexp(state.in_unit, state.in_blank)
        before, after_blank = either[:-1].T, state.in_blank[:-1].T
        emitted = self.log_probs[state.utterances]
        scores = (before[..., None] + emitted).logsumexp(1)
        # The last unit again is another one only after a blank. An empty prefix has had nothing but blanks, so that its
        # -1 may pass for any unit.
        again = state.last.clamp(min=0)[:, None]
        repeated = emitted.gather(2, again[:, None].expand(-1, emitted.shape[1], 1))[..., 0]
        repeated = (after_blank + repeated).logsumexp(1)
        scores.scatter_(1, again, repeated[:, None])
        scores[:, -1] = either[-1]
        return scores

    def select(self, state: PrefixState, rows: Tensor, units: Tensor) -> PrefixState:
        """The prefixes of `rows` (M,), each with its unit of `units` (M,) after it; a row may come several times."""
        utterances, in_unit, in_blank = state.utterances[rows], state.in_unit[:, rows], state.in_blank[:, rows]
        # Where the unit can begin: after anything, or if it is the last one again, after a blank.
        begins = torch.where(units == state.last[rows], in_blank, torch.logaddexp(in_unit, in_blank))
        emitted = self.log_probs[utterances, :, units].T.unbind()
        blanks = self.log_probs[utterances, :, -1].T.unbind()
        unit = blank = torch.full_like(begins[0], -torch.inf)
        moments = [(unit, blank)]
        for begin, emitted_unit, emitted_blank in zip(begins[:-1].unbind(), emitted, blanks, strict=True):
            unit, blank = (
                torch.logaddexp(unit, begin) + emitted_unit,
                torch.logaddexp(unit, blank) + emitted_blank,
            )
            moments.append((unit, blank))
        in_unit, in_blank = (torch.stack(of_moments) for of_moments in zip(*moments, strict=True))
        return PrefixState(utterances, units, in_unit, in_blank)
