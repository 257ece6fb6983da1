"""Networks: pixels in, logits out, `forward_features` before the head."""

from vitspeech.models.cnn import CNN
from vitspeech.models.timm_model import TimmModel
from vitspeech.models.vit import ViT

__all__ = ["CNN", "TimmModel", "ViT"]
