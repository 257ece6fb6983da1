"""Attention models for images and speech: train, run and understand them.

The names in `__all__` are the public interface: what configs, scripts and users import. Each is loaded on first use
(PEP 562), so `import vitspeech` itself takes milliseconds and does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitspeech.attention import (
        Decoder,
        DecoderConfig,
        Encoder,
        EncoderConfig,
        MultiHeadAttention,
        RelativePositions,
        Rotary,
        Rotary2d,
        Score,
        SelfAttentivePooling,
        attention_from_convolution,
        register_score,
        truncated_attention,
    )
    from vitspeech.checkpoint import Model, load
    from vitspeech.data import (
        AudioFolder,
        Augment,
        Cifar,
        DataModule,
        ImageData,
        ImageFolder,
        Keywords,
        LibriSpeech,
        SequenceAugment,
        Shapes,
        SpeechCommands,
        SpokenVocabulary,
        SpokenWords,
        SymbolTasks,
        TensorItems,
        TranscribedAudio,
        TwoMarks,
        UtteranceData,
        WaveformAugment,
        WaveformData,
        WordClip,
        WordSequences,
        WordSource,
    )
    from vitspeech.encoders import RecurrentDecoder, RecurrentEncoder, WindowMLP
    from vitspeech.errors import InputError
    from vitspeech.evaluation import Report
    from vitspeech.frontends import SpecAugment, SpeechFrontend, TextTokens
    from vitspeech.inference.label_stream import LabelStream
    from vitspeech.inference.predict import predict
    from vitspeech.inference.search import Search
    from vitspeech.inference.stream import stream
    from vitspeech.inference.symbols import transcribe_symbols
    from vitspeech.inference.transcribe import transcribe
    from vitspeech.inference.transcript_stream import TranscriptStream
    from vitspeech.models import (
        CNN,
        MaskedSpeechModel,
        Seq2Seq,
        SpeechClassifier,
        SpeechCNN,
        SpeechLabeler,
        SpeechRecognizer,
        SpeechTranscriber,
        TimmModel,
        ViT,
    )
    from vitspeech.tasks import (
        Classification,
        Distillation,
        JointRecognition,
        Labeling,
        MaskedPrediction,
        Recognition,
        Spotting,
        Task,
        Transcription,
    )

__version__ = "0.2.0"

__all__ = [
    "CNN",
    "AudioFolder",
    "Augment",
    "Cifar",
    "Classification",
    "DataModule",
    "Decoder",
    "DecoderConfig",
    "Distillation",
    "Encoder",
    "EncoderConfig",
    "ImageData",
    "ImageFolder",
    "InputError",
    "JointRecognition",
    "Keywords",
    "LabelStream",
    "Labeling",
    "LibriSpeech",
    "MaskedPrediction",
    "MaskedSpeechModel",
    "Model",
    "MultiHeadAttention",
    "Recognition",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RelativePositions",
    "Report",
    "Rotary",
    "Rotary2d",
    "Score",
    "Search",
    "SelfAttentivePooling",
    "Seq2Seq",
    "SequenceAugment",
    "Shapes",
    "SpecAugment",
    "SpeechCNN",
    "SpeechClassifier",
    "SpeechCommands",
    "SpeechFrontend",
    "SpeechLabeler",
    "SpeechRecognizer",
    "SpeechTranscriber",
    "SpokenVocabulary",
    "SpokenWords",
    "Spotting",
    "SymbolTasks",
    "Task",
    "TensorItems",
    "TextTokens",
    "TimmModel",
    "TranscribedAudio",
    "TranscriptStream",
    "Transcription",
    "TwoMarks",
    "UtteranceData",
    "ViT",
    "WaveformAugment",
    "WaveformData",
    "WindowMLP",
    "WordClip",
    "WordSequences",
    "WordSource",
    "attention_from_convolution",
    "load",
    "predict",
    "register_score",
    "stream",
    "transcribe",
    "transcribe_symbols",
    "truncated_attention",
]

_NAMES_IN_MODULE = {
    "attention": """Decoder DecoderConfig Encoder EncoderConfig MultiHeadAttention RelativePositions Rotary
        Rotary2d Score SelfAttentivePooling attention_from_convolution register_score truncated_attention""",
    "checkpoint": "Model load",
    "data": """AudioFolder Augment Cifar DataModule ImageData ImageFolder Keywords LibriSpeech SequenceAugment Shapes
        SpeechCommands SpokenVocabulary SpokenWords SymbolTasks TensorItems TranscribedAudio TwoMarks UtteranceData
        WaveformAugment WaveformData WordClip WordSequences WordSource""",
    "encoders": "RecurrentDecoder RecurrentEncoder WindowMLP",
    "errors": "InputError",
    "evaluation": "Report",
    "frontends": "SpecAugment SpeechFrontend TextTokens",
    "inference.label_stream": "LabelStream",
    "inference.predict": "predict",
    "inference.search": "Search",
    "inference.stream": "stream",
    "inference.symbols": "transcribe_symbols",
    "inference.transcribe": "transcribe",
    "inference.transcript_stream": "TranscriptStream",
    "models": """CNN MaskedSpeechModel Seq2Seq SpeechClassifier SpeechCNN SpeechLabeler SpeechRecognizer
        SpeechTranscriber TimmModel ViT""",
    "tasks": """Classification Distillation JointRecognition Labeling MaskedPrediction Recognition Spotting Task
        Transcription""",
}
_MODULE_OF = {name: f"vitspeech.{module}" for module, names in _NAMES_IN_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'vitspeech' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
