"""One multi-head attention core for images and speech: the names that configs and users write."""

from vitspeech.attention import (
    Decoder,
    Encoder,
    MultiHeadAttention,
    RelativePositions,
    Rotary,
    SelfAttentivePooling,
    attention_from_convolution,
    truncated_attention,
)
from vitspeech.audio_stream import stream
from vitspeech.checkpoint import load
from vitspeech.data import (
    AudioFolder,
    Augment,
    Cifar,
    ImageFolder,
    SequenceAugment,
    Shapes,
    SpeechCommands,
    SpokenVocabulary,
    SpokenWords,
    TranscribedAudio,
    TwoMarks,
    WaveformAugment,
    WordSequences,
)
from vitspeech.frontends import SpecAugment, SpeechTokens
from vitspeech.inference import predict
from vitspeech.models import (
    CNN,
    SpeechClassifier,
    SpeechCNN,
    SpeechLabeller,
    SpeechRecognizer,
    SpeechTranscriber,
    TimmModel,
    ViT,
)
from vitspeech.tasks import Classification, Labelling, Recognition, Transcription
from vitspeech.transcript_stream import TranscriptStream
from vitspeech.transcription import Search, transcribe

__all__ = [
    "CNN",
    "AudioFolder",
    "Augment",
    "Cifar",
    "Classification",
    "Decoder",
    "Encoder",
    "ImageFolder",
    "Labelling",
    "MultiHeadAttention",
    "Recognition",
    "RelativePositions",
    "Rotary",
    "Search",
    "SelfAttentivePooling",
    "SequenceAugment",
    "Shapes",
    "SpecAugment",
    "SpeechCNN",
    "SpeechClassifier",
    "SpeechCommands",
    "SpeechLabeller",
    "SpeechRecognizer",
    "SpeechTokens",
    "SpeechTranscriber",
    "SpokenVocabulary",
    "SpokenWords",
    "TimmModel",
    "TranscribedAudio",
    "TranscriptStream",
    "Transcription",
    "TwoMarks",
    "ViT",
    "WaveformAugment",
    "WordSequences",
    "attention_from_convolution",
    "load",
    "predict",
    "stream",
    "transcribe",
    "truncated_attention",
]
