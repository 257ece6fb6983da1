"""Where the items of a data set are: `rows.py` reads them from their files when a batch needs them and finds broken
files, `pack.py` writes them into shards, `packed.py` reads the shards, `format.py` says what both agree on."""
