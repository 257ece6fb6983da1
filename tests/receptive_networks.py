"""Networks and inputs that the tests of receptive fields and of attention heads share."""

import timm
import torch
from arguments import nested
from torch import nn

from vitspeech.models import ViT
from vitspeech.receptive.fields.layers import Layer

MEL = Layer("tokens.log_mel", "mel")


class Applied(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def noise(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


def vit(**options):
    torch.manual_seed(0)
    return ViT(7, 12, 4, **nested(**{"width": 30, "depth": 2, "heads": 3} | options)).double().eval()


def small_timm(name="vit_tiny_patch16_224", **options):
    torch.manual_seed(0)
    options = {"img_size": 32, "depth": 2, "num_classes": 7} | options
    return timm.create_model(name, **options).double().eval()
