from vitspeech.data.batches import SpeechBatch as SpeechBatch, TensorItems as TensorItems, collate as collate
from vitspeech.data.clips.augment import WaveformAugment as WaveformAugment
from vitspeech.data.clips.folder import AudioFolder as AudioFolder
from vitspeech.data.clips.module import WaveformData as WaveformData
from vitspeech.data.clips.speech_commands import SpeechCommands as SpeechCommands
from vitspeech.data.clips.spoken_words import SpokenVocabulary as SpokenVocabulary, SpokenWords as SpokenWords
from vitspeech.data.hugging_face_labels import (
    HuggingFaceClips as HuggingFaceClips,
    HuggingFaceImages as HuggingFaceImages,
)
from vitspeech.data.images.augment import Augment as Augment
from vitspeech.data.images.cifar import Cifar as Cifar
from vitspeech.data.images.folder import ImageFolder as ImageFolder
from vitspeech.data.images.module import ImageData as ImageData
from vitspeech.data.images.shapes import Shapes as Shapes, TwoMarks as TwoMarks
from vitspeech.data.keywords.module import Keywords as Keywords
from vitspeech.data.module import DataModule as DataModule
from vitspeech.data.symbols import SymbolTasks as SymbolTasks
from vitspeech.data.utterances.augment import SequenceAugment as SequenceAugment
from vitspeech.data.utterances.hugging_face import HuggingFaceUtterances as HuggingFaceUtterances
from vitspeech.data.utterances.librispeech import LibriSpeech as LibriSpeech
from vitspeech.data.utterances.module import UtteranceData as UtteranceData
from vitspeech.data.utterances.recorded import RecordedData as RecordedData
from vitspeech.data.utterances.transcribed_audio import TranscribedAudio as TranscribedAudio
from vitspeech.data.utterances.word_clips import WordClip as WordClip, WordSource as WordSource
from vitspeech.data.utterances.word_sequences import WordSequences as WordSequences
