"""Attention models for images and speech: train, run and understand them.

The names in `__all__` are the public interface: what configs, scripts and users import. Each is loaded on first use
(PEP 562), so `import vitspeech` itself takes milliseconds and does not import torch. The imports below are for type
checkers, which take `A as A` for a public name.
"""

from typing import TYPE_CHECKING

from vitspeech.lazy_names import on_first_use

if TYPE_CHECKING:
    from vitspeech.attention import (
        Decoder as Decoder,
        DecoderConfig as DecoderConfig,
        Encoder as Encoder,
        EncoderConfig as EncoderConfig,
        MultiHeadAttention as MultiHeadAttention,
        RelativePositions as RelativePositions,
        Rotary as Rotary,
        Rotary2d as Rotary2d,
        Score as Score,
        SelfAttentivePooling as SelfAttentivePooling,
        attention_from_convolution as attention_from_convolution,
        register_score as register_score,
        truncated_attention as truncated_attention,
    )
    from vitspeech.data import (
        AudioFolder as AudioFolder,
        Augment as Augment,
        Cifar as Cifar,
        DataModule as DataModule,
        HuggingFaceClips as HuggingFaceClips,
        HuggingFaceImages as HuggingFaceImages,
        HuggingFaceUtterances as HuggingFaceUtterances,
        ImageData as ImageData,
        ImageFolder as ImageFolder,
        Keywords as Keywords,
        LibriSpeech as LibriSpeech,
        SequenceAugment as SequenceAugment,
        Shapes as Shapes,
        SpeechCommands as SpeechCommands,
        SpokenVocabulary as SpokenVocabulary,
        SpokenWords as SpokenWords,
        SymbolTasks as SymbolTasks,
        TensorItems as TensorItems,
        TranscribedAudio as TranscribedAudio,
        TwoMarks as TwoMarks,
        UtteranceData as UtteranceData,
        WaveformAugment as WaveformAugment,
        WaveformData as WaveformData,
        WordClip as WordClip,
        WordSequences as WordSequences,
        WordSource as WordSource,
    )
    from vitspeech.decoding.keywords import SpottingSettings as SpottingSettings
    from vitspeech.decoding.search import Search as Search
    from vitspeech.encoders import (
        RecurrentDecoder as RecurrentDecoder,
        RecurrentEncoder as RecurrentEncoder,
        WindowMLP as WindowMLP,
    )
    from vitspeech.errors import InputError as InputError
    from vitspeech.evaluation import Report as Report
    from vitspeech.frontends import (
        SpecAugment as SpecAugment,
        SpeechEmbedding as SpeechEmbedding,
        SpeechFrontend as SpeechFrontend,
        TextTokens as TextTokens,
    )
    from vitspeech.inference.label_stream import LabelStream as LabelStream
    from vitspeech.inference.model import Model as Model, load as load, save as save
    from vitspeech.inference.predict import Prediction as Prediction, predict as predict
    from vitspeech.inference.spotting import WordSpotter as WordSpotter
    from vitspeech.inference.stream import stream as stream
    from vitspeech.inference.symbols import transcribe_symbols as transcribe_symbols
    from vitspeech.inference.transcribe import transcribe as transcribe
    from vitspeech.inference.transcript import Transcript as Transcript
    from vitspeech.inference.transcript_stream import TranscriptStream as TranscriptStream
    from vitspeech.models import (
        CNN as CNN,
        MaskedSpeechModel as MaskedSpeechModel,
        Seq2Seq as Seq2Seq,
        SpeechClassifier as SpeechClassifier,
        SpeechCNN as SpeechCNN,
        SpeechLabeler as SpeechLabeler,
        SpeechRecognizer as SpeechRecognizer,
        SpeechTranscriber as SpeechTranscriber,
        TimmModel as TimmModel,
        ViT as ViT,
    )
    from vitspeech.receptive.heads.weights import attention_weights as attention_weights
    from vitspeech.tasks import (
        Classification as Classification,
        Distillation as Distillation,
        JointRecognition as JointRecognition,
        Labeling as Labeling,
        MaskedPrediction as MaskedPrediction,
        Recognition as Recognition,
        Spotting as Spotting,
        Task as Task,
        Transcription as Transcription,
    )

__version__ = "0.2.0"

_NAMES_IN_MODULE = {
    "attention": """Decoder DecoderConfig Encoder EncoderConfig MultiHeadAttention RelativePositions Rotary
        Rotary2d Score SelfAttentivePooling attention_from_convolution register_score truncated_attention""",
    "data": """AudioFolder Augment Cifar DataModule HuggingFaceClips HuggingFaceImages HuggingFaceUtterances ImageData
        ImageFolder Keywords LibriSpeech SequenceAugment Shapes
        SpeechCommands SpokenVocabulary SpokenWords SymbolTasks TensorItems TranscribedAudio TwoMarks UtteranceData
        WaveformAugment WaveformData WordClip WordSequences WordSource""",
    "decoding.keywords": "SpottingSettings",
    "decoding.search": "Search",
    "encoders": "RecurrentDecoder RecurrentEncoder WindowMLP",
    "errors": "InputError",
    "evaluation": "Report",
    "frontends": "SpecAugment SpeechEmbedding SpeechFrontend TextTokens",
    "inference.label_stream": "LabelStream",
    "inference.model": "Model load save",
    "inference.predict": "Prediction predict",
    "inference.spotting": "WordSpotter",
    "inference.stream": "stream",
    "inference.symbols": "transcribe_symbols",
    "inference.transcribe": "transcribe",
    "inference.transcript": "Transcript",
    "inference.transcript_stream": "TranscriptStream",
    "models": """CNN MaskedSpeechModel Seq2Seq SpeechClassifier SpeechCNN SpeechLabeler SpeechRecognizer
        SpeechTranscriber TimmModel ViT""",
    "receptive.heads.weights": "attention_weights",
    "tasks": """Classification Distillation JointRecognition Labeling MaskedPrediction Recognition Spotting Task
        Transcription""",
}
_MODULE_OF = {name: f"vitspeech.{module}" for module, names in _NAMES_IN_MODULE.items() for name in names.split()}
__all__ = sorted(_MODULE_OF)
_ELSEWHERE = dict.fromkeys(("create_model", "from_pretrained", "pipeline", "AutoModel", "load_model"), "load")
__getattr__, __dir__ = on_first_use(__name__, _MODULE_OF, _ELSEWHERE)
