#!/usr/bin/env python3
"""The same as `vitspeech tune`."""

from vitspeech.commands import run

if __name__ == "__main__":
    run("tune")
