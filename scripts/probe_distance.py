#!/usr/bin/env python3
"""The same as `vitspeech probe`."""

from vitspeech.commands import run

if __name__ == "__main__":
    run("probe")
