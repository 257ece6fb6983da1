"""The report of a comparison: a JSON of all numbers, a table of the main ones, and the figures on one page."""
