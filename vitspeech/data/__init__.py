"""Data sets, read once and augmented in batches."""

from vitspeech.data.clips.folder import AudioFolder
from vitspeech.data.clips.module import WaveformAugment
from vitspeech.data.clips.speech_commands import SpeechCommands
from vitspeech.data.clips.spoken_words import SpokenWords
from vitspeech.data.images.augment import Augment
from vitspeech.data.images.cifar import Cifar
from vitspeech.data.images.folder import ImageFolder
from vitspeech.data.images.shapes import Shapes
from vitspeech.data.images.two_marks import TwoMarks
from vitspeech.data.utterances.spoken_vocabulary import SpokenVocabulary
from vitspeech.data.utterances.transcribed_audio import TranscribedAudio
from vitspeech.data.utterances.word_sequences import SequenceAugment, WordSequences

__all__ = [
    "AudioFolder",
    "Augment",
    "Cifar",
    "ImageFolder",
    "SequenceAugment",
    "Shapes",
    "SpeechCommands",
    "SpokenVocabulary",
    "SpokenWords",
    "TranscribedAudio",
    "TwoMarks",
    "WaveformAugment",
    "WordSequences",
]
