"""Audio clips of one length with one label each. `module.py` is the base class, `augment.py` mixes in noise and changes
time, speed, room and gain of training clips, `noise.py` synthesizes noise, knocks, sirens and other sounds,
`silence.py` makes clips of noise, `folder.py` reads your own recordings; `speech_commands.py` and `spoken_words.py` are
data sets."""
