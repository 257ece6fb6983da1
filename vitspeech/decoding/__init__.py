"""From log-probabilities to a sequence of units: CTC's searches and the autoregressive ones. Pure torch."""
