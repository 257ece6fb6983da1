"""Networks: from pixels, audio samples or symbols to logits."""

from vitspeech.models.cnn import CNN
from vitspeech.models.masked_speech import MaskedSpeechModel
from vitspeech.models.seq2seq import Seq2Seq
from vitspeech.models.speech import SpeechClassifier, SpeechLabeler, SpeechRecognizer
from vitspeech.models.speech_cnn import SpeechCNN
from vitspeech.models.speech_transcriber import SpeechTranscriber
from vitspeech.models.timm import TimmModel
from vitspeech.models.vit import ViT

__all__ = [
    "CNN",
    "MaskedSpeechModel",
    "Seq2Seq",
    "SpeechCNN",
    "SpeechClassifier",
    "SpeechLabeler",
    "SpeechRecognizer",
    "SpeechTranscriber",
    "TimmModel",
    "ViT",
]
