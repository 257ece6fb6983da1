"""What a machine does with this package beside its peers; `scripts/benchmark.py` is the verb."""
