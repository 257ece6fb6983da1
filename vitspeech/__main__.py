"""`python -m vitspeech`, the same as `vitspeech`."""

from vitspeech.commands import main

if __name__ == "__main__":
    main()
