"""Data sets, read once and augmented in batches."""

from vitspeech.data.audio_folder import AudioFolder
from vitspeech.data.augment import Augment
from vitspeech.data.cifar import Cifar
from vitspeech.data.image_folder import ImageFolder
from vitspeech.data.shapes import Shapes
from vitspeech.data.speech_commands import SpeechCommands
from vitspeech.data.spoken_vocabulary import SpokenVocabulary
from vitspeech.data.spoken_words import SpokenWords
from vitspeech.data.transcribed_audio import TranscribedAudio
from vitspeech.data.two_marks import TwoMarks
from vitspeech.data.waveforms import WaveformAugment
from vitspeech.data.word_sequences import SequenceAugment, WordSequences

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
