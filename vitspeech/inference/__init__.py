"""Predict, transcribe and stream with a released model."""
