"""Figures of runs, attention and transcripts."""
