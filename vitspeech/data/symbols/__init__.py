"""Sequences of symbols in, sequences of symbols out, made on the spot. `module.py` is the data set, `rules.py` draws
inputs, says what their outputs are and which split they belong to, and `batch.py` is the batch."""
