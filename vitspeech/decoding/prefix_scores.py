"""CTC prefix probabilities: the probability that a transcript begins with given units.

Shapes: B utterances, T tokens, C classes (the last class is the blank), R rows (hypotheses of any utterances),
M selected rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PrefixState:
    """One prefix per row, with its forward variables after 0 to T tokens.

    Attributes:
        utterances: Index of the utterance (R,).
        last: Last unit of the prefix (R,); -1 for an empty prefix.
        in_unit: Log-probability that the first t tokens have the prefix as their labeling and the last of them is its
            last unit (T + 1, R).
        in_blank: The same if the last of them is a blank (T + 1, R).
    """

    utterances: Tensor
    last: Tensor
    in_unit: Tensor
    in_blank: Tensor


class PrefixScores:
    """Prefix probabilities of CTC (Graves 2012, doi:10.1007/978-3-642-24797-2, sec. 7.5) for joint decoding.

    Watanabe et al. 2017 (doi:10.1109/JSTSP.2017.2763455, algorithm 2). The probability of a prefix is the sum over all
    transcripts that begin with it. `extend` computes it for all next units at once, without a loop, and needs memory
    for R · T · C numbers; `select` updates the state of the selected rows, in a loop over T.

    Args:
        log_probs: Log-probabilities of each token; the last class is the blank.
        tokens: Number of valid tokens of each utterance; `None` if all are valid.

    Shape:
        log_probs (B, T, C), tokens (B,) or None
    """

    def __init__(self, log_probs: Tensor, tokens: Tensor | None = None) -> None:
        # Half precision is too inaccurate for sums of hundreds of logarithms.
        log_probs = log_probs.detach().to(torch.promote_types(log_probs.dtype, torch.float32))
        self.batch, longest, self.classes = log_probs.shape
        if tokens is not None:
            padded = torch.arange(longest, device=log_probs.device) >= tokens.to(log_probs.device)[:, None]
            # Padding is blanks of probability 1, so that the variables at T are those of the last valid token.
            log_probs = log_probs.masked_fill(padded[..., None], -torch.inf)
            log_probs[..., -1].masked_fill_(padded, 0.0)
        self.log_probs = log_probs

    def start(self, beam: int = 1) -> PrefixState:
        """Empty prefixes, `beam` rows per utterance: R = B · beam."""
        device = self.log_probs.device
        utterances = torch.arange(self.batch, device=device).repeat_interleave(beam)
        blanks = self.log_probs[utterances, :, -1].T.cumsum(0)
        in_blank = torch.cat((torch.zeros_like(utterances, dtype=blanks.dtype)[None], blanks))
        return PrefixState(utterances, torch.full_like(utterances, -1), torch.full_like(in_blank, -torch.inf), in_blank)

    def extend(self, state: PrefixState) -> Tensor:
        """Log-probabilities of each row's prefix extended by each unit, and of the prefix as the whole transcript.

        Column c is the sum over all transcripts that begin with the prefix followed by c. The last column is the
        probability of the prefix as the complete transcript. All columns sum to the probability of the prefix.

        Shape:
            -> (R, C)
        """
        either = torch.logaddexp(state.in_unit, state.in_blank)
        before, after_blank = either[:-1].T, state.in_blank[:-1].T
        emitted = self.log_probs[state.utterances]
        scores = (before[..., None] + emitted).logsumexp(1)
        # A repeated unit is a new one only after a blank. All paths of an empty prefix end in the blank, so that its
        # last unit (-1) can be any.
        last = state.last.clamp(min=0)[:, None]
        repeated = emitted.gather(2, last[:, None].expand(-1, emitted.shape[1], 1))[..., 0]
        repeated = (after_blank + repeated).logsumexp(1)
        scores.scatter_(1, last, repeated[:, None])
        scores[:, -1] = either[-1]
        return scores

    def select(self, state: PrefixState, rows: Tensor, units: Tensor) -> PrefixState:
        """Extend the prefixes of `rows` (M,), which may repeat, by `units` (M,)."""
        utterances, in_unit, in_blank = state.utterances[rows], state.in_unit[:, rows], state.in_blank[:, rows]
        # The new unit follows the unit or the blank, but a repeated unit only the blank.
        begins = torch.where(units == state.last[rows], in_blank, torch.logaddexp(in_unit, in_blank))
        emitted = self.log_probs[utterances, :, units].T.unbind()
        blanks = self.log_probs[utterances, :, -1].T.unbind()
        unit = blank = torch.full_like(begins[0], -torch.inf)
        variables = [(unit, blank)]
        for begin, emitted_unit, emitted_blank in zip(begins[:-1].unbind(), emitted, blanks, strict=True):
            unit, blank = (
                torch.logaddexp(unit, begin) + emitted_unit,
                torch.logaddexp(unit, blank) + emitted_blank,
            )
            variables.append((unit, blank))
        in_unit, in_blank = (torch.stack(rows) for rows in zip(*variables, strict=True))
        return PrefixState(utterances, units, in_unit, in_blank)
