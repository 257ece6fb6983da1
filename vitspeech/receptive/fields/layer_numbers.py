"""Theoretical and effective receptive fields of a network's layers as numbers, in pixels or milliseconds.

Shapes: B inputs, N image side in pixels or samples of a clip.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from vitspeech.receptive.fields.effective import Field, LayerFields, effective_fields
from vitspeech.receptive.fields.extent import Numbers, extent, extent_in_frequency, extent_in_time
from vitspeech.receptive.fields.layers import Layer


@dataclass(frozen=True)
class LayerNumbers:
    """The numbers of one layer, in px for images and in ms for audio.

    Args:
        fields: The fields that the numbers describe.
        depth: Relative depth of the layer, above 0; 1 is the last layer measured.
        cell: Px or ms between neighboring positions of the source: 1 px, or the hop of the log-mel frames.
        cumulative: Of the field in the source, from `extent` or `extent_in_time`.
        cumulative_cut: The same without residual shortcuts; `None` if there are none.
        block: Of the field in the layer measured before (the mixing distance); `None` if not measured.
        block_cut: The same without residual shortcuts.
        frequency: From `extent_in_frequency`; `None` for images.
    """

    fields: LayerFields
    depth: float
    cell: float
    cumulative: Numbers
    cumulative_cut: Numbers | None
    block: Numbers | None
    block_cut: Numbers | None
    frequency: Numbers | None

    @property
    def name(self) -> str:
        """The layer's name, as in `named_modules`."""
        return self.fields.layer.name

    @property
    def stride(self) -> float:
        """Px or ms between neighboring units."""
        return self.cell * self.fields.stride

    @property
    def reach(self) -> tuple[float, float] | None:
        """The theoretical field before (above) and after (below) a unit's center, in px or ms.

        Measured from the center to the farthest position; inf is unlimited. `None` if the theoretical field is not
        known, because the graph has an operation that mixes positions and is not in `theoretical.RULES`.
        """
        span = self.fields.cumulative.theoretical[0]
        return (-span.low * self.cell, span.high * self.cell) if self.fields.cumulative.known else None


def layer_numbers(
    network: nn.Module, inputs: Tensor, layers: Sequence[Layer], source: Layer, *, cumulative_only: bool = False
) -> list[LayerNumbers]:
    """Measure layers of a network, in the order in which they run; see `effective_fields`.

    Args:
        network: In evaluation mode; for audio, with its front end as `tokens`.
        inputs: Images (B, 3, N, N) or waveforms (B, N).
        layers: The layers to measure.
        source: The input, or the log-mel frames.
        cumulative_only: As in `effective_fields`.
    """
    log_mel = network.tokens.log_mel if source.in_time else None
    cell = 1.0 if log_mel is None else log_mel.hop_ms
    layer_fields = effective_fields(network, inputs, layers, source=source, cumulative_only=cumulative_only)
    result = []
    for number, fields in enumerate(layer_fields, 1):
        if log_mel is None:
            numbers = partial(numbers_of_image, stride=fields.stride)
        else:
            numbers = partial(numbers_of_audio, hop=cell)
        result.append(
            LayerNumbers(
                fields,
                number / len(layers),
                cell,
                numbers(fields.cumulative, 1.0),
                numbers(fields.cumulative_cut, 1.0),
                numbers(fields.block, fields.block_stride),
                numbers(fields.block_cut, fields.block_stride),
                None if log_mel is None else extent_in_frequency(fields.cumulative, log_mel.centers_hz),
            )
        )
    return result


def numbers_of_image(field: Field | None, step: float, *, stride: float) -> Numbers | None:
    """Numbers in px; neighboring positions of the field are `step` px apart, neighboring units `stride` px."""
    return None if field is None else extent(field, cell=step, own=stride / step)


def numbers_of_audio(field: Field | None, step: float, *, hop: float) -> Numbers | None:
    """Numbers in ms; neighboring positions of the field are `step` frames of `hop` ms apart."""
    return None if field is None else extent_in_time(field, cell_ms=step * hop)
