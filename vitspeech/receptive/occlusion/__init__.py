"""Accuracy against what stays visible of the input."""
