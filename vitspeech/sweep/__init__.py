"""Sweeps: configs, variations and seeds trained as ordinary runs, and tabulated with paired intervals."""
