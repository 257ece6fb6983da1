#!/usr/bin/env python3
"""The same as `vitspeech compare`."""

from vitspeech.commands import run

if __name__ == "__main__":
    run("compare")
