"""Audio itself. `reading.py` reads audio files, `listing.py` reads CSV files that list them, `continuous.py` lists
speech, `synthesis.py` synthesizes words with eSpeak NG, `vocabulary.py` is a list of 1,200 words to synthesize,
`phonemes.py` says how similar words sound, and `similar_words.py` finds or makes words that sound like others."""
