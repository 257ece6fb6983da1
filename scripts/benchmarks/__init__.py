"""Benchmarks of this package and comparable ones; scripts/benchmark.py runs them."""
