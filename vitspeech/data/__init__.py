"""Data sets, in memory, in files or mapped into memory, augmented in batches.

`module.py` is the base class of all of them, `batches.py` makes batches, `labeled_files.py` lists files and `splits.py`
says which are held out. `images/`, `clips/` (one label each), `keywords/` (words among everything else), `utterances/`
(transcripts) and `symbols/` are the kinds of data sets. `audio/` reads and synthesizes sound, `rows.py` reads
items when a batch needs them, `hugging_face.py` finds them in data sets of Hugging Face and `pack.py` writes such sets,
`downloads.py` fetches data sets, and `tables.py` writes tables.
"""

from typing import TYPE_CHECKING

from vitspeech.lazy_names import on_first_use

if TYPE_CHECKING:
    from vitspeech.data.batches import TensorItems
    from vitspeech.data.clips.augment import WaveformAugment
    from vitspeech.data.clips.folder import AudioFolder
    from vitspeech.data.clips.hugging_face import HuggingFaceClips
    from vitspeech.data.clips.module import WaveformData
    from vitspeech.data.clips.speech_commands import SpeechCommands
    from vitspeech.data.clips.spoken_words import SpokenWords
    from vitspeech.data.images.augment import Augment
    from vitspeech.data.images.cifar import Cifar
    from vitspeech.data.images.folder import ImageFolder
    from vitspeech.data.images.hugging_face import HuggingFaceImages
    from vitspeech.data.images.module import ImageData
    from vitspeech.data.images.shapes import Shapes
    from vitspeech.data.images.two_marks import TwoMarks
    from vitspeech.data.keywords.module import Keywords
    from vitspeech.data.module import DataModule
    from vitspeech.data.symbols.module import SymbolTasks
    from vitspeech.data.utterances.augment import SequenceAugment
    from vitspeech.data.utterances.batch import SpeechBatch, collate
    from vitspeech.data.utterances.hugging_face import HuggingFaceUtterances
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
    "HuggingFaceClips",
    "HuggingFaceImages",
    "HuggingFaceUtterances",
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

_NAMES_IN_MODULE = {
    "batches": "TensorItems",
    "clips.augment": "WaveformAugment",
    "clips.folder": "AudioFolder",
    "clips.hugging_face": "HuggingFaceClips",
    "clips.module": "WaveformData",
    "clips.speech_commands": "SpeechCommands",
    "clips.spoken_words": "SpokenWords",
    "images.augment": "Augment",
    "images.cifar": "Cifar",
    "images.folder": "ImageFolder",
    "images.hugging_face": "HuggingFaceImages",
    "images.module": "ImageData",
    "images.shapes": "Shapes",
    "images.two_marks": "TwoMarks",
    "keywords.module": "Keywords",
    "module": "DataModule",
    "symbols.module": "SymbolTasks",
    "utterances.augment": "SequenceAugment",
    "utterances.batch": "SpeechBatch collate",
    "utterances.hugging_face": "HuggingFaceUtterances",
    "utterances.librispeech": "LibriSpeech",
    "utterances.module": "UtteranceData",
    "utterances.recorded": "RecordedData",
    "utterances.spoken_vocabulary": "SpokenVocabulary",
    "utterances.transcribed_audio": "TranscribedAudio",
    "utterances.word_clips": "WordClip WordSource",
    "utterances.word_sequences": "WordSequences",
}
_MODULE_OF = {name: f"vitspeech.data.{module}" for module, names in _NAMES_IN_MODULE.items() for name in names.split()}
__getattr__, __dir__ = on_first_use(__name__, _MODULE_OF)
