"""Figures of runs, transcripts and cross-attention."""
