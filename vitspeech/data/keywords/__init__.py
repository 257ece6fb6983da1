"""Keywords and everything that is not one: `module.py` is the data set, `items.py` the training clips, some of which
are made anew for every batch, `altered.py` how words are altered until they are no longer keywords, and `speech.py`
reads continuous speech."""
