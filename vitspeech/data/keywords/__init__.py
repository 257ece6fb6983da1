"""Keywords and everything that is not one: `module.py` is the data set, `items.py` the training clips, some of which
are made anew for every batch."""
