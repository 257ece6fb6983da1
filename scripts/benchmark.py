#!/usr/bin/env python3
"""The same as `vitspeech benchmark`."""

from vitspeech.commands import run

if __name__ == "__main__":
    run("benchmark")
