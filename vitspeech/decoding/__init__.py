"""Decoding: from log-probabilities to sequences of units, for CTC and for autoregressive decoders."""
