"""Any timm network by name, with the interface of our models.

Shapes: B batch, N image side, W features before the head.
"""

from difflib import get_close_matches
from functools import partial
from typing import Any

from torch import Tensor, nn

from vitspeech.errors import InputError
from vitspeech.frontends.patches import check_pixels


class TimmModel(nn.Module):
    """An untrained timm network with a new head.

    Args:
        classes: Number of labels; 0 builds no head, and `forward` returns pooled features (B, W).
        timm_name: A name from `timm.list_models()`, for example `mobilenetv3_small_100`.
        options: Further arguments of `timm.create_model` for that network, for example `{drop_path_rate: 0.1}`.
        image: Image side N in pixels, which networks that are built for one size need; others ignore it. The command
            line sets it to the size of the data.

    Shape:
        normalized pixels (B, 3, N, N) -> logits (B, classes)

    Raises:
        InputError: If timm has no network of that name, or an option would load weights.
    """

    def __init__(
        self,
        classes: int = 0,
        timm_name: str = "",
        options: dict[str, Any] | None = None,
        *,
        image: int | None = None,
    ) -> None:
        super().__init__()
        import timm

        # Only names of timm's own registry: `hf-hub:` and `local-dir:` would download or read what a config names.
        options = options or {}
        if not timm.is_model(timm_name) or ":" in timm_name:
            close = ", ".join(get_close_matches(timm_name, timm.list_models(), n=5)) or "none; see timm.list_models()"
            raise InputError(f"timm_name={timm_name!r} is not a network of timm; close names: {close}")
        loading = [name for name in options if name.startswith(("pretrained", "checkpoint"))]
        if loading:
            raise InputError(f"options {', '.join(loading)} would load weights; this network starts untrained")
        create = partial(timm.create_model, timm_name, pretrained=False, num_classes=classes)
        try:
            self.network = create(**({"img_size": image} if image else {}) | options)
        except TypeError:  # takes images of any size, or another option is wrong
            self.network = create(**options)

    @property
    def num_features(self) -> int:
        """Width W of the features that the head takes."""
        return self.network.head_hidden_size

    @property
    def num_classes(self) -> int:
        """The number of outputs of the head."""
        return self.network.num_classes

    def get_classifier(self) -> nn.Module:
        """The head, as timm returns it."""
        return self.network.get_classifier()

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the head by an untrained one; 0 classes remove it."""
        self.network.reset_classifier(num_classes)

    def forward_intermediates(self, images: Tensor, *arguments: Any, **options: Any) -> Any:
        """The features, and the outputs of blocks on the way, with timm's arguments and shapes."""
        check_pixels(images)
        return self.network.forward_intermediates(images, *arguments, **options)

    def forward_features(self, images: Tensor) -> Tensor:
        """Feature maps or tokens, as timm's `forward_features` returns them."""
        check_pixels(images)
        return self.network.forward_features(images)

    def forward_head(self, features: Tensor, pre_logits: bool = False) -> Tensor:
        """Pool and classify: -> (B, classes), or pooled features (B, W) with `pre_logits`."""
        return self.network.forward_head(features, pre_logits=pre_logits)

    def forward(self, images: Tensor) -> Tensor:
        """Normalized pixels (B, 3, N, N) -> logits (B, classes)."""
        check_pixels(images)
        return self.network(images)
