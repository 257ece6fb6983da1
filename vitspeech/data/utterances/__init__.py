"""Utterances with transcripts. `module.py` is the base class, `augment.py` changes speed, gain and noise of training
utterances. `recorded.py` is the base class of recordings with transcripts: `librispeech.py`, and your own in
`transcribed_audio.py`; `subwords.py` splits words. `word_sequences.py` composes utterances of single words:
`word_clips.py` finds where a word begins and mixes words and noise, `manifest.py` stores test sets."""
