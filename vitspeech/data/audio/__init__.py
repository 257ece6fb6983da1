"""Audio itself. `reading.py` reads audio files, `listing.py` reads CSV files that list them, `synthesis.py` synthesizes
words with eSpeak NG, and `vocabulary.py` is a list of 1,200 words to synthesize."""
