"""Data sets, held in memory, in files or in packs, and augmented in batches.

`module.py` is the base class of all of them, `batches.py` makes batches, `labeled_files.py` lists files and `splits.py`
says which are held out. `images/`, `clips/` (one label each), `keywords/` (words among everything else), `utterances/`
(transcripts) and `symbols/` are the kinds of data sets. `audio/` reads and synthesizes sound, `storage/` says where
items are, `downloads.py` fetches data sets, and `tables.py` writes tables.
"""

from vitspeech.data.batches import TensorItems
from vitspeech.data.clips.augment import WaveformAugment
from vitspeech.data.clips.folder import AudioFolder
from vitspeech.data.clips.module import WaveformData
from vitspeech.data.clips.speech_commands import SpeechCommands
from vitspeech.data.clips.spoken_words import SpokenWords
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.cifar import Cifar
from vitspeech.data.images.folder import ImageFolder
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.shapes import Shapes
from vitspeech.data.images.two_marks import TwoMarks
from vitspeech.data.keywords.module import Keywords
from vitspeech.data.module import DataModule
from vitspeech.data.symbols.module import SymbolTasks
from vitspeech.data.utterances.augment import SequenceAugment
from vitspeech.data.utterances.batch import SpeechBatch, collate
from vitspeech.data.utterances.librispeech import LibriSpeech
from vitspeech.data.utterances.module import UtteranceData
from vitspeech.data.utterances.recorded import RecordedData
from vitspeech.data.utterances.spoken_vocabulary import SpokenVocabulary
from vitspeech.data.utterances.transcribed_audio import TranscribedAudio
from vitspeech.data.utterances.word_clips import WordClip, WordSource
from vitspeech.data.utterances.word_sequences import WordSequences

__all__ = [
    "AudioFolder",
    "Augment",
    "Cifar",
    "DataModule",
    "ImageData",
    "ImageFolder",
    "Keywords",
    "LibriSpeech",
    "RecordedData",
    "SequenceAugment",
    "Shapes",
    "SpeechBatch",
    "SpeechCommands",
    "SpokenVocabulary",
    "SpokenWords",
    "SymbolTasks",
    "TensorItems",
    "TranscribedAudio",
    "TwoMarks",
    "UtteranceData",
    "WaveformAugment",
    "WaveformData",
    "WordClip",
    "WordSequences",
    "WordSource",
    "collate",
]
