"""The recurrent decoder: an LSTM or GRU that attends to the source in every step (Bahdanau et al., Luong et al. 2015).

Shapes: B batch, T tokens, S source tokens, D model width, L layers.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor, nn

from vitspeech.attention import MeanPooling, Score
from vitspeech.attention.dense import attend
from vitspeech.attention.scores import Additive, make_score
from vitspeech.encoders.recurrent import CELLS, Cell
from vitspeech.errors import check_fraction, check_number, named

ATTEND = ("before", "after")


@dataclass(frozen=True)
class RecurrentCache:
    """The state of a recurrent decoder between steps. A step returns a new one and leaves the old one usable.

    Attributes:
        state: The hidden state of the layers and, for an LSTM, their cell state (L, B, D).
        attentional: The output of the last step (B, D), zeros before the first one.
        key: The source, transformed by the score (B, 1, S, D).
        source: The source (B, 1, S, D).
        source_padding: True for valid source tokens (B, S); `None` if all are valid.
    """

    state: tuple[Tensor, ...]
    attentional: Tensor
    key: Tensor
    source: Tensor
    source_padding: Tensor | None

    def select(self, indices: Tensor) -> Self:
        """The state of the sequences at `indices` (N,), which may repeat, as in beam search."""
        rows = {name: getattr(self, name).index_select(0, indices) for name in ("attentional", "key", "source")}
        padding = None if self.source_padding is None else self.source_padding.index_select(0, indices)
        return type(self)(tuple(part.index_select(1, indices) for part in self.state), **rows, source_padding=padding)


class RecurrentDecoder(nn.Module):
    """An LSTM or GRU with attention over the source; it takes the place of the transformer decoder.

    Both ways of attending compute weights softmax_j(score(s, h_j)) over the source tokens h_j and their weighted sum c:

    - `before` (Bahdanau et al. 2015, arXiv:1409.0473, eq. 4-6): the query is the state before the step, s_{t-1}; the
      layers get [y_{t-1}; c_t]. The output is a maxout of a linear layer of [s_t; y_{t-1}; c_t] (app. A.2.2, with s_t
      as in eq. 4).
    - `after` (Luong et al. 2015, arXiv:1508.04025, eq. 5-8 and sec. 3.3): the layers get [y_{t-1}; o_{t-1}], where o is
      the last output ("input feeding"); the query is the state after the step, s_t, and o_t = tanh(W [c_t; s_t]).

    The first state is tanh(W h) of the mean h of the source, where Bahdanau et al. use the encoder's first backward
    state and Luong et al. its last state, which not every encoder has.

    In a config: `decoder: {class_path: vitspeech.RecurrentDecoder, init_args: {score: general}}`.

    Args:
        width: Model width D, also that of the state.
        depth: Number of layers L; the state of the last one is the query.
        cell: `lstm` or `gru`.
        score: How the state and a source token are compared, as in `MultiHeadAttention`: `additive` (Bahdanau),
            `general`, `dot` (Luong), or any other.
        attend: `before` or `after`; `None` is `before` for the additive score and `after` for others.
        dropout: Dropout probability of the inputs and outputs.

    Shape:
        x (B, T, D), source (B, S, D), padding (B, T) or None, source_padding (B, S) or None -> (B, T, D); `padding` has
        no effect, since no output depends on later tokens
    """

    def __init__(
        self,
        width: int = 128,
        depth: int = 1,
        *,
        cell: Cell = "lstm",
        score: type[Score] | str = "additive",
        attend: Literal["before", "after"] | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_number("width", width, 1)
        check_number("depth", depth, 1)
        check_fraction("dropout", dropout)
        if attend is not None:
            named(ATTEND, "attend", attend)
        self.width = width
        self.score = make_score(score, 1, width)
        self.attend_before = (attend or ("before" if isinstance(self.score, Additive) else "after")) == "before"
        self.mean = MeanPooling()
        self.first_state = nn.Linear(width, depth * width)
        self.layers = named(CELLS, "cell", cell)(2 * width, width, depth, batch_first=True)
        # Maxout (Goodfellow et al. 2013, arXiv:1302.4389) of pairs, or tanh.
        self.output = nn.Linear(3 * width, 2 * width) if self.attend_before else nn.Linear(2 * width, width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, source: Tensor, padding: Tensor | None = None, source_padding: Tensor | None = None
    ) -> Tensor:
        """Decode tokens x (B, T, D) from an encoded source (B, S, D); masks are true for valid tokens: -> (B, T, D)."""
        return self.run(x, self.start(source, source_padding))[0]

    def start(self, source: Tensor, source_padding: Tensor | None = None) -> RecurrentCache:
        """The state before the first token.

        Shape:
            source (B, S, D), source_padding (B, S) or None
        """
        hidden = self.first_state(self.mean(source, source_padding)).tanh()
        hidden = hidden.unflatten(-1, (self.layers.num_layers, -1)).transpose(0, 1).to(source.dtype).contiguous()
        state = (hidden, torch.zeros_like(hidden)) if isinstance(self.layers, nn.LSTM) else (hidden,)
        heads = source[:, None]
        _, key = self.score.prepare(heads[:, :, :0], heads)
        return RecurrentCache(state, torch.zeros_like(source[:, 0]), key, heads, source_padding)

    def step(self, x: Tensor, cache: RecurrentCache) -> tuple[Tensor, RecurrentCache]:
        """The outputs for the next tokens and the state after them: (B, T, D) -> (B, T, D)."""
        outputs, cache, _ = self.run(x, cache)
        return outputs, cache

    def cross_weights(self, x: Tensor, source: Tensor, source_padding: Tensor | None = None) -> Tensor:
        """The attention weights of every step; there is one block and one head.

        Shape:
            x (B, T, D), source (B, S, D), source_padding (B, S) or None -> (1, B, 1, T, S)
        """
        return self.run(x, self.start(source, source_padding))[2][None, :, None]

    def run(self, x: Tensor, cache: RecurrentCache) -> tuple[Tensor, RecurrentCache, Tensor]:
        """Outputs (B, T, D), the state after them, and the attention weights (B, T, S)."""
        outputs, weights = [], []
        for token in self.dropout(x).unbind(1):
            output, cache, attended = self.next(token, cache)
            outputs.append(output)
            weights.append(attended)
        if not outputs:
            return x, cache, x.new_zeros(len(x), 0, cache.source.shape[2])
        return self.dropout(torch.stack(outputs, dim=1)), cache, torch.stack(weights, dim=1)

    def next(self, token: Tensor, cache: RecurrentCache) -> tuple[Tensor, RecurrentCache, Tensor]:
        """One step: the output (B, D), the state after it, and the attention weights (B, S) for a token (B, D)."""
        if self.attend_before:
            context, weights = self.attend(cache.state[0][-1], cache)
            state = self.advance(token, context, cache)
            features = self.output(torch.cat((state[0][-1].to(token.dtype), token, context.to(token.dtype)), dim=-1))
            output = features.unflatten(-1, (-1, 2)).amax(-1)
        else:
            state = self.advance(token, cache.attentional, cache)
            context, weights = self.attend(state[0][-1], cache)
            output = self.output(torch.cat((context, state[0][-1].to(context.dtype)), dim=-1)).tanh()
        return output, replace(cache, state=state, attentional=output), weights

    def advance(self, token: Tensor, other: Tensor, cache: RecurrentCache) -> tuple[Tensor, ...]:
        """The state of the layers after the input [token; other]: two (B, D) -> (L, B, D) for each part of it."""
        state = tuple(part.to(token.dtype) for part in cache.state)
        inputs = torch.cat((token, other.to(token.dtype)), dim=-1)[:, None]
        _, state = self.layers(inputs, state if len(state) == 2 else state[0])
        return state if isinstance(state, tuple) else (state,)

    def attend(self, state: Tensor, cache: RecurrentCache) -> tuple[Tensor, Tensor]:
        """The weighted sum of the source (B, D) and the weights (B, S) for a state (B, D)."""
        query = state[:, None, None]
        query, _ = self.score.prepare(query, query[:, :, :0])
        mask = None if cache.source_padding is None else cache.source_padding[:, None, None]
        options = {"scale": self.score.scale, "additive_vector": self.score.additive_vector}
        source = cache.source.to(cache.key.dtype)
        context, weights = attend(query.to(source.dtype), cache.key, source, mask, **options)
        return context[:, 0, 0], weights[:, 0, 0]
