"""Utterances with transcripts. `module.py` is the base class, `batch.py` the batch, `augment.py` changes speed, gain
and noise of training utterances, and `transcribed_audio.py` reads your own recordings. `word_sequences.py` composes
utterances from single words: `word_clips.py` finds where a word begins and ends, `sampling.py` draws words and pauses,
`composition.py` mixes words and noise, `manifest.py` stores test sets, `spoken_vocabulary.py` synthesizes words."""
