"""Where the items of a data set are: in memory, in their files, or in a pack. `rows.py` reads files when a batch needs
them, `broken.py` counts files that cannot be read, and `pack.py` says what a pack contains. `packing.py` writes a pack
by the plan of `plan.py`, `shards.py` reads and writes one Arrow file of it, `packed.py` reads batches from it, and
`checking.py` compares it with its checksums."""
