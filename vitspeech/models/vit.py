"""The vision transformer: patches -> attention encoder -> pooling -> head.

Shapes: B batch, C channels, N image side, T tokens, D model width.
"""

from typing import Literal

from torch import Tensor, nn

from vitspeech.attention import Encoder, EncoderConfig, FixedPositions, LearnedPositions, sinusoidal_2d
from vitspeech.attention.pooling import pooling_of
from vitspeech.attention.positions import IN_ATTENTION
from vitspeech.attention.scores import named
from vitspeech.frontends import ConvolutionalPatches, LinearPatches

STEMS = {"linear": LinearPatches, "convolutional": ConvolutionalPatches}
ADDED = {
    "learned": lambda grid, width: LearnedPositions(grid**2, width),
    "sinusoidal": lambda grid, width: FixedPositions(sinusoidal_2d(grid, grid, width)),
    "none": lambda grid, width: nn.Identity(),
}


class ViT(nn.Module):
    """A vision transformer (Dosovitskiy et al. 2021, arXiv:2010.11929), pre-norm.

    Args:
        classes: Number of labels.
        image: Image side N in pixels.
        patch: Pixels along the side of what a token stands for; must divide N.
        width: Model width D.
        encoder: Depth, heads, contexts and so on; `None` is `EncoderConfig()`.
        stem: `linear` maps each patch by itself; `convolutional` halves the image by convolutions.
        positions: `learned` or `sinusoidal` (2-D) are added to the patches; `relative` and `rotary` tell attention the
            distance in raster order; `none`.
        pooling: `mean`, `class` (a class token), `self_attentive`, or a pooling of width D
            (`vitspeech.SelfAttentivePooling` with its own hidden width, hops and penalty).

    Shape:
        normalized pixels (B, 3, N, N) -> logits (B, classes)

    Raises:
        ValueError: If `patch` does not divide `image`, `heads` does not divide `width`, or a name is unknown.
    """

    def __init__(
        self,
        classes: int = 0,
        image: int = 32,
        patch: int = 4,
        *,
        width: int = 192,
        encoder: EncoderConfig | None = None,
        stem: Literal["linear", "convolutional"] = "linear",
        positions: Literal["learned", "sinusoidal", "relative", "rotary", "none"] = "learned",
        pooling: Literal["mean", "class", "self_attentive"] | nn.Module = "mean",
    ) -> None:
        super().__init__()
        self.patches = named(STEMS, "stem", stem)(image, patch, width)
        within, positions = (positions, "none") if positions in IN_ATTENTION else (None, positions)
        self.positions = named(ADDED | IN_ATTENTION, "positions", positions)(self.patches.grid, width)
        self.pooling = pooling_of(pooling, width)
        self.encoder = Encoder(width, encoder, positions=within)
        self.head = nn.Linear(self.pooling.factor * width, classes)

    def forward_features(self, images: Tensor) -> Tensor:
        """What the head sees: (B, 3, N, N) -> (B, D), or (B, hops · D) after a pooling with several hops."""
        tokens = self.pooling.prepare(self.positions(self.patches(images)))
        return self.pooling(self.encoder(tokens))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.forward_features(images))
