"""Benchmarks of this package and comparable ones; the command is `vitspeech benchmark`."""
