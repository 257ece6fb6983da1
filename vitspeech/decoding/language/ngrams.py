"""Back-off n-gram language models (Katz 1987): probabilities of the next token, token by token.

    p(w | h) = p*(w | h) if the n-gram hw is in the model, else b(h) · p(w | h'), where h' is h without its first token.

N-grams are the nodes of a trie. Node 0 is the empty context, and node hw is a child of node h. The nodes are sorted by
(parent, token), so that the children of a node are neighbors and a child is found by bisection. Each node has a link to
its suffix, the node without the first token.

A state is the node of the longest context that matters for the next token: one number, whatever was said before.

Shapes: N n-grams, V tokens of the vocabulary.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
NEVER = -99 * numpy.log(10)  # the log-probability of <s>, which only begins contexts; ARPA files write -99
CACHED_BYTES = 64 * 2**20  # of the probabilities of all tokens in the states that a search meets
MOST_ORDER = 20
Kind = Literal["words", "characters", "pieces"]


class NgramModel:
    """A back-off n-gram language model; made by `vitspeech.decoding.language.arpa.read` or `kneser_ney.estimate`.

    All logarithms are natural.

    Args:
        vocabulary: The tokens; `<s>` and `</s>` are among them.
        parents: The node of each n-gram without its last token, sorted; the first V are 0.
        tokens: The last token of each n-gram, an index of `vocabulary`, sorted within a parent.
        log_probabilities: log p*(w | h) of each n-gram hw.
        backoffs: log b(h) of the empty context, which is not used, and of each n-gram as a context.
        sizes: The number of n-grams of each order, from 1.
        kind: What the tokens are, if the file says so.

    Shape:
        parents, tokens, log_probabilities (N,); backoffs (N + 1,)
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        parents: numpy.ndarray,
        tokens: numpy.ndarray,
        log_probabilities: numpy.ndarray,
        backoffs: numpy.ndarray,
        *,
        sizes: Sequence[int],
        kind: Kind | None = None,
    ) -> None:
        self.vocabulary, self.sizes, self.kind = list(vocabulary), tuple(sizes), kind
        self.index = {token: place for place, token in enumerate(self.vocabulary)}
        self.parents, self.tokens = parents, tokens
        self.log_probabilities, self.backoffs = log_probabilities, backoffs
        self.keys = parents * len(self.vocabulary) + tokens
        nodes = numpy.arange(len(parents) + 2)
        self.begins = numpy.searchsorted(parents, nodes)  # the children of a node are begins[node] .. begins[node + 1]
        self.suffixes, self.reduced = self.links()
        self.rows: dict[int, numpy.ndarray] = {}

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.sizes)

    @cached_property
    def checksum(self) -> str:
        """The first 12 digits of the SHA-256 of the model's numbers and tokens."""
        hashed = hashlib.sha256("\0".join(self.vocabulary).encode())
        for array in (self.parents, self.tokens, self.log_probabilities, self.backoffs):
            hashed.update(numpy.ascontiguousarray(array).tobytes())
        return hashed.hexdigest()[:12]

    @property
    def start(self) -> int:
        """The state at the beginning of an utterance."""
        return self.advance(0, self.index[BEGIN])

    def links(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """For each node, the node of its longest suffix in the model, and the state that it leads to.

        A node that is not a context of any n-gram, and that has no back-off weight, gives the same probabilities as its
        suffix, and so it leads to the state of the suffix.
        """
        suffixes = numpy.zeros(len(self.parents) + 1, dtype=numpy.int64)
        reduced = suffixes.copy()
        is_context = (self.begins[1:] > self.begins[:-1]) | (self.backoffs != 0)
        first = 1
        for level, size in enumerate(self.sizes):
            nodes = numpy.arange(first, first + size)
            if level:
                contexts = suffixes[self.parents[nodes - 1]]
                suffixes[nodes] = self.longest(contexts, self.tokens[nodes - 1], suffixes)
            reduced[nodes] = numpy.where(is_context[nodes], nodes, reduced[suffixes[nodes]])
            first += size
        return suffixes, reduced

    def longest(self, contexts: numpy.ndarray, tokens: numpy.ndarray, suffixes: numpy.ndarray) -> numpy.ndarray:
        """The node of each context with one more token, or of the longest suffix of it that is in the model."""
        found = self.children(contexts, tokens)
        while (missing := numpy.flatnonzero((found == 0) & (contexts > 0))).size:
            contexts = contexts.copy()
            contexts[missing] = suffixes[contexts[missing]]
            found[missing] = self.children(contexts[missing], tokens[missing])
        return found

    def children(self, nodes: numpy.ndarray, tokens: numpy.ndarray) -> numpy.ndarray:
        """The child of each node by a token; 0 where there is none."""
        keys = nodes * len(self.vocabulary) + tokens
        places = numpy.minimum(numpy.searchsorted(self.keys, keys), len(self.keys) - 1)
        return numpy.where(self.keys[places] == keys, places + 1, 0)

    def child(self, node: int, token: int) -> int:
        """The child of a node by a token; 0 if there is none."""
        key = node * len(self.vocabulary) + token
        place = int(self.keys.searchsorted(key))
        return place + 1 if place < len(self.keys) and self.keys[place] == key else 0

    def advance(self, state: int, token: int) -> int:
        """The state after a token."""
        while True:
            child = self.child(state, token)
            if child or not state:
                return int(self.reduced[child])
            state = int(self.suffixes[state])

    def row(self, state: int) -> numpy.ndarray:
        """The log-probabilities of all tokens in a state: (V,). They are kept for the next time; do not change them."""
        row = self.rows.get(state)
        if row is None:
            if state:
                row = self.row(int(self.suffixes[state])) + self.backoffs[state]
                children = slice(self.begins[state], self.begins[state + 1])
                row[self.tokens[children]] = self.log_probabilities[children]
            else:
                row = self.log_probabilities[: len(self.vocabulary)]
            if len(self.rows) * row.nbytes > CACHED_BYTES:
                self.rows.clear()
            self.rows[state] = row
        return row

    def log_probability(self, state: int, token: int) -> float:
        """The log-probability of one token in a state, without those of the others."""
        backoff = 0.0
        while not (child := self.child(state, token)):
            backoff += float(self.backoffs[state])
            state = int(self.suffixes[state])
        return backoff + float(self.log_probabilities[child - 1])

    def score(self, tokens: Sequence[int]) -> float:
        """The log-probability of an utterance and its end."""
        state, total = self.start, 0.0
        for token in (*tokens, self.index[END]):
            total += self.log_probability(state, token)
            state = self.advance(state, token)
        return total

    def perplexity(self, utterances: Sequence[Sequence[int]]) -> float:
        """exp(-log p / n) of some utterances with n tokens, including one end token per utterance."""
        count = sum(len(utterance) + 1 for utterance in utterances)
        return float(numpy.exp(-sum(map(self.score, utterances)) / count))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"rows": {}}

    def __deepcopy__(self, memo: dict[int, Any]) -> "NgramModel":
        return self  # it never changes, and may take hundreds of megabytes
