"""N-gram language models over the units of a recognizer or over words: estimation, ARPA files, scores for a search."""
