"""Evaluation on test sets, one file per kind of output. `Task.evaluate` chooses which one applies."""

from vitspeech.evaluation.report import Report

__all__ = ["Report"]
