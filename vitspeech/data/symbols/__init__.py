"""Sequences of symbols in, sequences of symbols out, made on the spot."""
