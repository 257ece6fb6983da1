"""Evaluation of trained networks on test sets: one file per kind of output, which `Task.evaluate` calls."""

from vitspeech.evaluation.report import Report

__all__ = ["Report"]
