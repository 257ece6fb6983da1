"""Theoretical and effective receptive fields, and their extent."""
