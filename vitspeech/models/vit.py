"""The vision transformer: patches -> attention encoder -> pooling -> head.

Shapes: B batch, C channels, N image side, T tokens, D model width, W features before the head.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from vitspeech.attention import Encoder, EncoderConfig, FixedPositions, LearnedPositions, Rotary2d, sinusoidal_2d
from vitspeech.attention.multihead import check_heads
from vitspeech.attention.pooling import ClassToken, make_pooling
from vitspeech.attention.positions import IN_ATTENTION
from vitspeech.errors import InputError, named
from vitspeech.frontends import ConvolutionalPatches, LinearPatches, WhitenedPatches
from vitspeech.models.classifier import Classifier, encoder_stages

STEMS = {"linear": LinearPatches, "convolutional": ConvolutionalPatches, "whitened": WhitenedPatches}
ADDED = {
    "learned": lambda grid, width: LearnedPositions(grid**2, width),
    "sinusoidal": lambda grid, width: FixedPositions(sinusoidal_2d(grid, grid, width, torch.float64)),
    "none": lambda grid, width: nn.Identity(),
}
BETWEEN = IN_ATTENTION | {"rotary_2d": Rotary2d}  # queries and keys


class ViT(Classifier):
    """A pre-norm vision transformer (Dosovitskiy et al. 2021, arXiv:2010.11929).

    Args:
        classes: Number of labels; 0 builds no head, and `forward` returns pooled features (B, W).
        image: Image side N in pixels; `None` is 32, or on the command line the side of the data's images.
        patch: Patch side in pixels; must divide N.
        width: Model width D.
        encoder: Settings of the encoder, also as a dictionary.
        stem: `linear` projects each patch (`LinearPatches`); `convolutional` is one convolution for each halving of the
            image (`ConvolutionalPatches`); `whitened` is the beginning of `CNN` (`WhitenedPatches`), which makes the
            network a hybrid.
        stem_width: Channels after the first stage of a convolutional stem, doubled by each stage up to D; `None` is the
            number that reaches D in the last stage.
        positions: `learned` or `sinusoidal` (2-D) are added to the patches; `rotary_2d` acts in attention and uses the
            distances in rows and columns (`Rotary2d`), `relative` and `rotary` the distance in raster order; `none`.
        pooling: `mean`, `class` (a class token), `self_attentive`, or a pooling module of width D, such as
            `vitspeech.SelfAttentivePooling` with its own hidden width, hops and penalty.

    Shape:
        normalized pixels (B, 3, N, N) -> logits (B, classes)
    """

    def __init__(
        self,
        classes: int = 0,
        image: int | None = None,
        patch: int = 4,
        *,
        width: int = 192,
        encoder: EncoderConfig = EncoderConfig(),
        stem: Literal["linear", "convolutional", "whitened"] = "linear",
        stem_width: int | None = None,
        positions: Literal["learned", "sinusoidal", "rotary_2d", "relative", "rotary", "none"] = "learned",
        pooling: Literal["mean", "class", "self_attentive"] | nn.Module = "mean",
    ) -> None:
        super().__init__()
        if stem == "linear" and stem_width is not None:
            raise InputError("stem_width is for stems of convolutions; a linear one has none")
        options = {} if stem_width is None else {"first": stem_width}
        self.patches = named(STEMS, "stem", stem)(image or 32, patch, width, **options)
        in_attention, added = (positions, "none") if positions in BETWEEN else (None, positions)
        self.positions = named(ADDED | BETWEEN, "positions", added)(self.patches.grid, width)
        self.pooling = make_pooling(pooling, width)
        if positions == "rotary_2d":
            grid, leading = self.patches.grid, int(isinstance(self.pooling, ClassToken))
            check_heads(heads := EncoderConfig.of(encoder).heads, width)
            in_attention = Rotary2d(width // heads, grid, grid, leading)
        self.encoder = Encoder(width, encoder, positions=in_attention)
        self.num_features = self.pooling.factor * width
        self.head = nn.Linear(self.num_features, classes) if classes else nn.Identity()

    def forward_features(self, images: Tensor) -> Tensor:
        """Encoded tokens, the class token first if there is one: (B, 3, N, N) -> (B, T, D)."""
        return self.encoder(self.prepare(images))

    def prepare(self, images: Tensor) -> Tensor:
        """The tokens before the encoder, the class token first if there is one: (B, 3, N, N) -> (B, T, D)."""
        return self.pooling.prepare(self.positions(self.patches(images)))

    def stages(self, images: Tensor) -> tuple[Tensor, Sequence[nn.Module], Callable[[Tensor], Tensor]]:
        return encoder_stages(self.encoder, self.prepare(images))

    def forward_intermediates(
        self,
        inputs: Tensor,
        indices: int | Iterable[int] | None = None,
        *,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: Literal["NCHW", "NLC"] = "NCHW",
        intermediates_only: bool = False,
    ) -> tuple[Tensor, list[Tensor]] | list[Tensor]:
        """The features, and the outputs of blocks on the way, without the class token; arguments as in `Classifier`.

        Shape:
            normalized pixels (B, 3, N, N) -> encoded tokens (B, T, D), and of each block a map (B, D, rows, columns)
            or, for `NLC`, tokens (B, rows · columns, D)
        """
        named(("NCHW", "NLC"), "output_fmt", output_fmt)
        features, found = super().forward_intermediates(inputs, indices, norm=norm, stop_early=stop_early)
        grid = self.patches.grid
        found = [tokens[:, -(grid**2) :] for tokens in found]
        if output_fmt == "NCHW":
            found = [tokens.transpose(1, 2).unflatten(2, (grid, grid)) for tokens in found]
        return found if intermediates_only else (features, found)

    def forward_head(self, tokens: Tensor, pre_logits: bool = False) -> Tensor:
        """Pool and classify: (B, T, D) -> (B, classes), or pooled features (B, W) with `pre_logits`."""
        features = self.pooling(tokens)
        return features if pre_logits else self.head(features)

    def initialize(self, images: Tensor) -> None:
        """Set the whitening layer of the stem, if there is one, from normalized training images (B, 3, N, N)."""
        if isinstance(self.patches, WhitenedPatches):
            self.patches.whitening.whiten(images)

    def forward(self, images: Tensor) -> Tensor:
        """Normalized pixels (B, 3, N, N) -> logits (B, classes)."""
        return self.forward_head(self.forward_features(images))
