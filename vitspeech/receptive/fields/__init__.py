"""Theoretical and effective receptive fields of layers, and their size, for each layer of a network in px or ms."""
