"""Attention within a window around each query, in time and memory linear in the sequence length."""
