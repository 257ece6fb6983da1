"""Networks: pixels or samples in, logits out, `forward_features` before the head."""

from vitspeech.models.cnn import CNN
from vitspeech.models.speech_classifier import SpeechClassifier
from vitspeech.models.speech_cnn import SpeechCNN
from vitspeech.models.timm_model import TimmModel
from vitspeech.models.vit import ViT

__all__ = ["CNN", "SpeechCNN", "SpeechClassifier", "TimmModel", "ViT"]
