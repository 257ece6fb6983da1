"""Data sets, in memory, in files or mapped into memory, augmented in batches.

`module.py` is the base class of all of them, `batches.py` makes batches, `labeled_files.py` lists files and `splits.py`
says which are held out. `images/`, `clips/` (one label each), `keywords/` (words among everything else), `utterances/`
(transcripts) and `symbols.py` are the kinds of data sets. `audio/` reads and synthesizes sound, `rows.py` reads
items when a batch needs them, `hugging_face.py` finds them in data sets of Hugging Face and `pack.py` writes such sets,
`downloads.py` fetches data sets, and `tables.py` writes tables.
"""

from vitspeech.lazy_names import on_first_use

__getattr__, __dir__, __all__ = on_first_use(__name__)
