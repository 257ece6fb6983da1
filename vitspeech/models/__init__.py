"""Networks: from pixels, audio samples or symbols to logits."""

from vitspeech.models.cnn import CNN
from vitspeech.models.masked_speech_model import MaskedSpeechModel
from vitspeech.models.seq2seq import Seq2Seq
from vitspeech.models.speech_classifier import SpeechClassifier
from vitspeech.models.speech_cnn import SpeechCNN
from vitspeech.models.speech_labeler import SpeechLabeler
from vitspeech.models.speech_recognizer import SpeechRecognizer
from vitspeech.models.speech_transcriber import SpeechTranscriber
from vitspeech.models.timm_model import TimmModel
from vitspeech.models.vit import ViT
from vitspeech.models.window_mlp import WindowMLP

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
    "WindowMLP",
]
