"""Images of Hugging Face data sets, scaled to one size."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from vitspeech.data.hugging_face import HuggingFaceLabels
from vitspeech.data.images.folder import ImageFolder
from vitspeech.data.images.module import ImageData
from vitspeech.data.images.reading import read_picture
from vitspeech.data.rows import Content


class HuggingFaceImages(HuggingFaceLabels, ImageData):
    """Images with one label each, from the Hugging Face Hub, Parquet, a folder, or what `vitspeech pack` wrote.

    Args:
        path: A name on the hub, or a folder or file; see `HuggingFaceData`.
        image: Side in pixels to which the center square of each image is scaled.
        mean: Mean of each channel, with pixels scaled to 0..1.
        std: Standard deviation of each channel, likewise.
        **options: Those of `HuggingFaceLabels` and of `ImageData`.
    """

    feature = "Image"

    def __init__(
        self,
        path: str,
        *,
        image: int = 64,
        mean: Sequence[float] = ImageFolder.mean,
        std: Sequence[float] = ImageFolder.std,
        **options: Any,
    ) -> None:
        super().__init__(path, **options)
        self.image, self.item_bytes = image, 3 * image**2
        self.mean, self.std = mean, std

    def read_file(self, file: Content | Path) -> Tensor:
        return read_picture(file, self.image)
