"""Streaming speech models as graphs: one step, with a state of fixed size, for each token."""
