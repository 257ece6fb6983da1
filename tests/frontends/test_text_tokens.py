"""Tokens of symbols: the embedding times √D, unit variance at the start, nothing for padding."""

import torch

from vitspeech.frontends import TextTokens


def test_a_token_is_the_embedding_times_the_root_of_the_width_and_padding_is_zero():
    tokens = TextTokens(3, 16)
    tokens.embedding.weight.data[2] = torch.arange(16.0)
    found = tokens(torch.tensor([[2, 0, 2], [1, -1, -1]]))
    assert torch.equal(found[0, 0], 4 * torch.arange(16.0)) and torch.equal(found[0, 2], found[0, 0])
    assert not found[1, 1:].any() and found[1, 0].any()


def test_tokens_have_unit_variance_at_the_start():
    torch.manual_seed(0)
    tokens = TextTokens(500, 64)(torch.arange(500)[None])
    assert abs(tokens.std().item() - 1) < 0.02
