"""One multi-head attention core for images and speech: the names that configs and users write."""

from vitspeech.attention import (
    Decoder,
    DecoderConfig,
    Encoder,
    EncoderConfig,
    MultiHeadAttention,
    RelativePositions,
    Rotary,
    SelfAttentivePooling,
    attention_from_convolution,
    truncated_attention,
)
from vitspeech.checkpoint.folder import load
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
from vitspeech.inference.predict import predict
from vitspeech.inference.stream import stream
from vitspeech.inference.transcribe import Search, transcribe
from vitspeech.inference.transcript_stream import TranscriptStream
from vitspeech.models import (
    CNN,
    SpeechClassifier,
    SpeechCNN,
    SpeechLabeler,
    SpeechRecognizer,
    SpeechTranscriber,
    TimmModel,
    ViT,
)
from vitspeech.tasks import Classification, Labeling, Recognition, Transcription

__all__ = [
    "CNN",
    "AudioFolder",
    "Augment",
    "Cifar",
    "Classification",
    "Decoder",
    "DecoderConfig",
    "Encoder",
    "EncoderConfig",
    "ImageFolder",
    "Labeling",
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
    "SpeechLabeler",
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
