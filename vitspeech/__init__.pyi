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
from vitspeech.inference.transcribe import transcribe as transcribe, transcribe_symbols as transcribe_symbols
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

__version__: str
