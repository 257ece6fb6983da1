"""The speech page; all tests of this folder share one served page and one browser."""
