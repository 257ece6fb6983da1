"""Self-attention as a convolution: heads that look at a place relative to the pixel, whatever the pixels hold.

Cordonnier et al. 2020 (arXiv:1911.03584) show that K² heads with quadratic relative positions can be any K × K
convolution (Theorem 1). `attention_from_convolution` sets the weights so that they are.

Shapes: B batch, D channels in, E channels out, R rows, C columns, H heads, K head width, T query pixels, S pixels of
the padded image; pixels are in raster order.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention.scores import weights_of

Sides = tuple[int, int, int, int]

# A head of sharpness α centered on a pixel gives all other pixels together less than (1 + 3 e^-α)² - 1 ≈ 6 e^-α: along
# each axis their squared distances are 1, 4, 9, … At 46 this is 6e-20, below float64's (and any narrower type's)
# rounding by half, 1.1e-16: the center's weight rounds to 1, and what the others add is lost in rounding. It suffices,
# and leaves centers a gradient, if a faint one; from 104 (float32) or 746 (float64) on the other weights would be 0.
HARD = 46.0


class QuadraticAttention(nn.Module):
    """Self-attention over pixels by quadratic relative positions alone (Cordonnier et al. 2020, sec. 3.1, eq. 9).

    Head h scores key pixel k for query pixel q by -α_h ‖(k - q) - Δ_h‖², so that softmax makes it a round spot of
    learned center Δ_h (rows, columns) and sharpness α_h. Values, joined heads and output are those of
    `MultiHeadAttention`, but values have no bias: a pixel of the zero padding is worth zero. The score is a sum over
    rows and columns, so the softmax is a product of two, and no (T, S) weights are made.

    Args:
        width_in: Channels D.
        width_out: Channels E.
        heads: Number of heads H.
        padding: Rows and columns of zero pixels around the image (above, below, left, right), which can be attended
            to; one number for all sides.
        margin: How many pixels within the padded image's sides queries begin and end, likewise; `None` is the
            padding, which makes every pixel of the image a query and no other.
        head_width: Width K of a head's values; `None` is the smaller of D and E: a head can then be any linear map.

    Shape:
        image (B, D, R, C) -> (B, E, R, C), or as many rows and columns as `margin` leaves of the padded image's

    Raises:
        ValueError: If `heads` is below 1, a side is negative, the image has other channels, or no query is left.
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        heads: int,
        *,
        padding: int | Sides = 0,
        margin: int | Sides | None = None,
        head_width: int | None = None,
    ) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads={heads} is below 1")
        head_width = min(width_in, width_out) if head_width is None else head_width
        self.heads = heads
        self.padding = on_four_sides("padding", padding)
        self.margin = self.padding if margin is None else on_four_sides("margin", margin)
        self.centers = nn.Parameter(torch.randn(heads, 2))
        self.sharpness = nn.Parameter(torch.ones(heads))
        self.value = nn.Linear(width_in, heads * head_width, bias=False)
        self.output = nn.Linear(heads * head_width, width_out)
        for projection in (self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, image: Tensor) -> Tensor:
        if image.ndim != 4 or image.shape[1] != self.value.in_features:
            raise ValueError(f"image of shape {tuple(image.shape)} is not (B, {self.value.in_features}, R, C)")
        above, _, left, _ = self.padding
        rows, columns = image.shape[2:]
        # Padding's pixels are worth zero: it is enough to leave out their weights.
        by_row = self.weights_along(0, rows)[:, :, above : above + rows]
        by_column = self.weights_along(1, columns)[:, :, left : left + columns]
        value = self.value(image.movedim(1, -1)).unflatten(-1, (self.heads, -1))
        attended = torch.einsum("htr,brchk->btchk", by_row, value)
        attended = torch.einsum("huc,btchk->btuhk", by_column, attended)
        return self.output(attended.flatten(3)).movedim(-1, 1)

    def weights(self, rows: int, columns: int) -> Tensor:
        """The attention weights of every head for images of that size: (H, T, S)."""
        by_row, by_column = self.weights_along(0, rows), self.weights_along(1, columns)
        return torch.einsum("htr,huc->hturc", by_row, by_column).flatten(3).flatten(1, 2)

    def weights_along(self, axis: int, pixels: int) -> Tensor:
        """The weights along the rows (axis 0) or the columns (1) of an image: (H, queries, keys with padding)."""
        before, after = self.padding[2 * axis : 2 * axis + 2]
        first, last = self.margin[2 * axis : 2 * axis + 2]
        keys = torch.arange(before + pixels + after, device=self.centers.device)
        queries = keys[first : max(len(keys) - last, 0)]
        if not len(queries):
            name = ("rows", "columns")[axis]
            raise ValueError(f"margin={self.margin} leaves no query of {len(keys)} {name}, padding included")
        shift = (keys - queries[:, None]).to(self.centers.dtype)
        away = shift - self.centers[:, axis, None, None]
        return weights_of(-self.sharpness[:, None, None] * away.square())


def attention_from_convolution(convolution: nn.Conv2d) -> QuadraticAttention:
    """The self-attention that equals a convolution of stride 1 (Cordonnier et al. 2020, Theorem 1).

    One head for each place of the kernel, centered on the shift that the place stands for and so sharp (`HARD`) that
    in floating point it sees this pixel alone; to train the centers, too, lower `sharpness`. A kernel's slice, (E, D)
    at one place, is the head's value or its output weight, whichever leaves the other, the identity, the smaller. The
    zeros around the image are pixels to attend to, which makes it equal at the border, too.

    Args:
        convolution: Any kernel, dilation, and padding with zeros.

    Raises:
        ValueError: If it has a stride, groups, or pads with anything but zeros.
    """
    for name, supported in (("stride", (1, 1)), ("groups", 1), ("padding_mode", "zeros")):
        got = getattr(convolution, name)
        if got != supported:
            raise ValueError(f"{name}={got!r} of the convolution is not supported, only {name}={supported!r}")
    width_in, width_out, kernel = convolution.in_channels, convolution.out_channels, convolution.kernel_size
    reach = [gap * (places - 1) for gap, places in zip(convolution.dilation, kernel, strict=True)]
    # Where the kernel's center lies: PyTorch's "same" puts the odd pixel of an even kernel below and to the right.
    margin = tuple(side for whole in reach for side in (whole // 2, whole - whole // 2))
    if isinstance(convolution.padding, str):
        padding = {"same": margin, "valid": 0}[convolution.padding]
    else:
        padding = tuple(side for side in convolution.padding for _ in range(2))
    heads = kernel[0] * kernel[1]
    attention = QuadraticAttention(width_in, width_out, heads, padding=padding, margin=margin)
    attention.to(convolution.weight)
    places = torch.cartesian_prod(torch.arange(kernel[0]), torch.arange(kernel[1]))
    slices = convolution.weight.flatten(2).permute(2, 0, 1)
    identity = torch.eye(min(width_in, width_out)).expand(heads, -1, -1)
    value, output = (identity, slices) if width_in <= width_out else (slices, identity)
    with torch.no_grad():
        attention.centers.copy_(places * torch.tensor(convolution.dilation) - torch.tensor(margin[::2]))
        attention.sharpness.fill_(HARD)
        attention.value.weight.copy_(value.flatten(0, 1))
        attention.output.weight.copy_(output.permute(1, 0, 2).flatten(1))
        if convolution.bias is not None:
            attention.output.bias.copy_(convolution.bias)
    return attention


def on_four_sides(name: str, sides: int | Sides) -> Sides:
    """(above, below, left, right) from these or from one number.

    Raises:
        ValueError: If they are not four, or one is negative.
    """
    four = (sides,) * 4 if isinstance(sides, int) else tuple(sides)
    if len(four) != 4 or min(four) < 0:
        raise ValueError(f"{name}={sides} is not one number or (above, below, left, right), none negative")
    return four
