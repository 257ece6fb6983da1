#!/usr/bin/env python3
"""The same as `vitspeech transcribe`."""

from vitspeech.commands import run

if __name__ == "__main__":
    run("transcribe")
