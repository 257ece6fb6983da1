"""Audio itself. `audio_file.py` opens audio files, `reading.py` reads them for networks, `levels.py` says what is odd
about samples, `continuous.py` lists speech, `synthesis.py` synthesizes words with eSpeak NG and `neural_voices.py`
with networks of the user's own, `vocabulary.py` is a list of 1,200 words to synthesize, `similar_words.py` finds or
makes words that sound like others, and `takes.py` says which takes of words are still to be recorded, and what is wrong
with one."""
