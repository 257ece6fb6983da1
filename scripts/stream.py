#!/usr/bin/env python3
"""The same as `vitspeech stream`."""

from vitspeech.commands import run

if __name__ == "__main__":
    run("stream")
