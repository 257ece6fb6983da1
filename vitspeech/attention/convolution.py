"""Self-attention as a convolution: heads that attend to a fixed offset from each pixel, whatever the content.

Cordonnier et al. 2020 (arXiv:1911.03584) show that K² heads with quadratic relative positions can express any
K × K convolution (Theorem 1). `attention_from_convolution` sets the weights accordingly.

Shapes: B batch, D channels in, E channels out, R rows, C columns, H heads, K head width, T query pixels, S pixels of
the padded image; pixels are in raster order.
"""

import torch
from torch import Tensor, nn

from vitspeech.attention.scores import weights_of
from vitspeech.errors import InputError

Sides = tuple[int, int, int, int]

# A head of sharpness α centered on a pixel gives all other pixels together a weight below (1 + 3 e^-α)² - 1 ≈ 6 e^-α:
# along each axis their squared distances are 1, 4, 9, … At 46 this is 6e-20, below the rounding unit of float64
# (1.1e-16) and of any narrower type: the weight of the center rounds to 1, and the others are lost in rounding. The
# centers keep a small gradient; from 104 (float32) or 746 (float64) on, the other weights would be exactly 0.
HARD = 46.0


class QuadraticAttention(nn.Module):
    """Self-attention over pixels with quadratic relative positions only (Cordonnier et al. 2020, sec. 3.1, eq. 9).

    Head h scores key pixel k for query pixel q by -α_h ‖(k - q) - Δ_h‖², so that its weights are a round spot with
    learned center Δ_h (rows, columns) and sharpness α_h. Values, heads and output are those of `MultiHeadAttention`,
    but values have no bias, so that pixels of the zero padding have the value zero. The score is a sum over rows and
    columns; the softmax is therefore a product of two, and no (T, S) weights are stored.

    Args:
        width_in: Channels D.
        width_out: Channels E.
        heads: Number of heads H.
        padding: Rows and columns of zero pixels around the image (above, below, left, right) that can be attended to;
            one number for all sides.
        margin: Rows and columns at the sides of the padded image that are not queries (above, below, left, right);
            one number for all sides. `None` equals `padding`, so that the queries are the pixels of the image.

    Shape:
        image (B, D, R, C) -> (B, E, R, C), or the rows and columns of the padded image without `margin`
    """

    def __init__(
        self,
        width_in: int,
        width_out: int,
        heads: int,
        *,
        padding: int | Sides = 0,
        margin: int | Sides | None = None,
    ) -> None:
        super().__init__()
        head_width = min(width_in, width_out)  # with which a head can be any linear map
        self.heads = heads
        self.padding = (padding,) * 4 if isinstance(padding, int) else padding
        self.margin = self.padding if margin is None else (margin,) * 4 if isinstance(margin, int) else margin
        self.centers = nn.Parameter(torch.randn(heads, 2))
        self.sharpness = nn.Parameter(torch.ones(heads))
        self.value = nn.Linear(width_in, heads * head_width, bias=False)
        self.output = nn.Linear(heads * head_width, width_out)
        for projection in (self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
        nn.init.zeros_(self.output.bias)

    def no_weight_decay(self) -> set[str]:
        """The names of the parameters that are trained without weight decay."""
        return {"centers", "sharpness"}

    def forward(self, image: Tensor) -> Tensor:
        above, _, left, _ = self.padding
        rows, columns = image.shape[2:]
        # The values of the padding are zero: leaving out its weights is enough.
        by_row = self.weights_along(0, rows)[:, :, above : above + rows]
        by_column = self.weights_along(1, columns)[:, :, left : left + columns]
        value = self.value(image.movedim(1, -1)).unflatten(-1, (self.heads, -1))
        attended = torch.einsum("htr,brchk->btchk", by_row, value)
        attended = torch.einsum("huc,btchk->btuhk", by_column, attended)
        return self.output(attended.flatten(3)).movedim(-1, 1)

    def weights(self, rows: int, columns: int) -> Tensor:
        """The attention weights of every head for an image size: (H, T, S)."""
        by_row, by_column = self.weights_along(0, rows), self.weights_along(1, columns)
        return torch.einsum("htr,huc->hturc", by_row, by_column).flatten(3).flatten(1, 2)

    def weights_along(self, axis: int, pixels: int) -> Tensor:
        """The weights along the rows (axis 0) or the columns (1) of an image: (H, queries, keys with padding)."""
        before, after = self.padding[2 * axis : 2 * axis + 2]
        first, last = self.margin[2 * axis : 2 * axis + 2]
        keys = torch.arange(before + pixels + after, device=self.centers.device)
        queries = keys[first : max(len(keys) - last, 0)]
        shift = (keys - queries[:, None]).to(self.centers.dtype)
        distance = shift - self.centers[:, axis, None, None]
        return weights_of(-self.sharpness[:, None, None] * distance.square())


def attention_from_convolution(convolution: nn.Conv2d) -> QuadraticAttention:
    """The self-attention that equals a convolution of stride 1 (Cordonnier et al. 2020, Theorem 1).

    There is one head for each position of the kernel, centered on its offset and so sharp (`HARD`) that in floating
    point it attends to this pixel only; lower `sharpness` to train the centers. The kernel's matrix (E, D) at a
    position becomes the value or the output weight of the head, and the smaller identity matrix becomes the other. The
    zeros around the image are pixels that can be attended to, so that the border is equal too.

    Args:
        convolution: With any kernel, dilation and zero padding.

    Raises:
        InputError: If it has a stride, groups, or padding other than zeros.
    """
    for name, supported in (("stride", (1, 1)), ("groups", 1), ("padding_mode", "zeros")):
        value = getattr(convolution, name)
        if value != supported:
            raise InputError(f"{name}={value!r} of the convolution is not supported, only {name}={supported!r}")
    width_in, width_out, kernel = convolution.in_channels, convolution.out_channels, convolution.kernel_size
    reach = [gap * (places - 1) for gap, places in zip(convolution.dilation, kernel, strict=True)]
    # The center of the kernel: PyTorch's "same" puts the odd pixel of an even kernel below and to the right.
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
