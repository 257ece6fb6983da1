"""Attention weights of any network, measures of attention heads, rollout and relevance, and figures of them."""
