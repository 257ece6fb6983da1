"""Any network of timm by its name, under the same contract as ours.

Shapes: B batch, N image side, W features before the head.
"""

from difflib import get_close_matches
from typing import Any

import timm
from torch import Tensor, nn


class TimmModel(nn.Module):
    """A timm network, untrained, with a head for these labels.

    Args:
        classes: Number of labels.
        timm_name: A name that `timm.list_models()` has, for example `mobilenetv3_small_100`.
        options: What else `timm.create_model` takes for that network, for example `{img_size: 32}`.

    Shape:
        normalized pixels (B, 3, N, N) -> logits (B, classes)

    Raises:
        ValueError: If timm has no network of that name, or an option would load weights.
    """

    def __init__(self, classes: int, timm_name: str, options: dict[str, Any] | None = None) -> None:
        super().__init__()
        # Only names of timm's own registry: `hf-hub:` and `local-dir:` would fetch or read what a config names.
        options = options or {}
        if not timm.is_model(timm_name) or ":" in timm_name:
            close = ", ".join(get_close_matches(timm_name, timm.list_models(), n=5)) or "none; see timm.list_models()"
            raise ValueError(f"timm_name={timm_name!r} is not a network of timm; close names: {close}")
        fetching = [name for name in options if name.startswith(("pretrained", "checkpoint"))]
        if fetching:
            raise ValueError(f"options {', '.join(fetching)} would load weights; this network starts untrained")
        self.network = timm.create_model(timm_name, pretrained=False, num_classes=classes, **options)

    def forward_features(self, images: Tensor) -> Tensor:
        """What the head sees: (B, 3, N, N) -> (B, W)."""
        return self.network.forward_head(self.network.forward_features(images), pre_logits=True)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)
