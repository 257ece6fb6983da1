from vitspeech.data.batches import TensorItems as TensorItems
from vitspeech.data.clips.augment import WaveformAugment as WaveformAugment
from vitspeech.data.clips.folder import AudioFolder as AudioFolder
from vitspeech.data.clips.hugging_face import HuggingFaceClips as HuggingFaceClips
from vitspeech.data.clips.module import WaveformData as WaveformData
from vitspeech.data.clips.speech_commands import SpeechCommands as SpeechCommands
from vitspeech.data.clips.spoken_words import SpokenWords as SpokenWords
from vitspeech.data.images.augment import Augment as Augment
from vitspeech.data.images.cifar import Cifar as Cifar
from vitspeech.data.images.folder import ImageFolder as ImageFolder
from vitspeech.data.images.hugging_face import HuggingFaceImages as HuggingFaceImages
from vitspeech.data.images.module import ImageData as ImageData
from vitspeech.data.images.shapes import Shapes as Shapes
from vitspeech.data.images.two_marks import TwoMarks as TwoMarks
from vitspeech.data.keywords.module import Keywords as Keywords
from vitspeech.data.module import DataModule as DataModule
from vitspeech.data.symbols.module import SymbolTasks as SymbolTasks
from vitspeech.data.utterances.augment import SequenceAugment as SequenceAugment
from vitspeech.data.utterances.batch import SpeechBatch as SpeechBatch, collate as collate
from vitspeech.data.utterances.hugging_face import HuggingFaceUtterances as HuggingFaceUtterances
from vitspeech.data.utterances.librispeech import LibriSpeech as LibriSpeech
from vitspeech.data.utterances.module import UtteranceData as UtteranceData
from vitspeech.data.utterances.recorded import RecordedData as RecordedData
from vitspeech.data.utterances.spoken_vocabulary import SpokenVocabulary as SpokenVocabulary
from vitspeech.data.utterances.transcribed_audio import TranscribedAudio as TranscribedAudio
from vitspeech.data.utterances.word_clips import WordClip as WordClip, WordSource as WordSource
from vitspeech.data.utterances.word_sequences import WordSequences as WordSequences
