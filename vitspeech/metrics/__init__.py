"""Word errors, word times and confidence intervals."""
