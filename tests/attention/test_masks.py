"""Masks against their definition, pair by pair."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitspeech.attention import causal_mask, padding_mask, window_mask
from vitspeech.attention.masks import window_counts

COUNTS = st.integers(1, 9)
CONTEXTS = st.none() | st.integers(0, 12)


@settings(deadline=None)
@given(queries=COUNTS, keys=COUNTS, left=CONTEXTS, right=CONTEXTS)
def test_window_allows_exactly_the_keys_within_reach(queries, keys, left, right):
    mask = window_mask(queries, keys, left, right)
    assert mask.dtype == torch.bool and mask.shape == (queries, keys)
    for t in range(queries):
        for s in range(keys):
            far_past = left is not None and t - s > left
            far_future = right is not None and s - t > right
            assert mask[t, s].item() == (not far_past and not far_future)


@settings(deadline=None)
@given(tokens=COUNTS)
def test_causal_allows_exactly_the_key_itself_and_those_before(tokens):
    mask = causal_mask(tokens)
    assert mask.tolist() == [[s <= t for s in range(tokens)] for t in range(tokens)]


@settings(deadline=None)
@given(data=st.data(), tokens=COUNTS)
def test_padding_allows_exactly_the_first_tokens_of_each_sequence(data, tokens):
    lengths = data.draw(st.lists(st.integers(0, tokens), min_size=1, max_size=5))
    mask = padding_mask(torch.tensor(lengths), tokens)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[s < length for s in range(tokens)] for length in lengths]


@settings(deadline=None)
@given(tokens=st.integers(0, 9), left=st.integers(0, 12), right=st.integers(0, 12), data=st.data())
def test_window_counts_are_the_rows_of_the_mask_counted(tokens, left, right, data):
    lengths = data.draw(st.lists(st.integers(0, tokens), min_size=1, max_size=3))
    padding = padding_mask(torch.tensor(lengths), tokens)
    mask = window_mask(tokens, tokens, left, right) & padding[:, None]
    assert torch.equal(window_counts(padding, tokens, left, right, mask.device), mask.sum(-1))
    whole = window_counts(None, tokens, left, right, mask.device)
    assert torch.equal(whole, window_mask(tokens, tokens, left, right).sum(-1)[None])
