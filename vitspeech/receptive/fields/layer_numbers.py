"""A network's layers in numbers: how far each could look, and how far it looks, in pixels or milliseconds.

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
    """What is said of one layer; of pictures in px, of speech in ms.

    Args:
        fields: What the numbers are of.
        depth: How deep the layer lies: above 0, up to 1 for the last one measured.
        cell: Px or ms from place to place of the source: 1 px, or the hop of the log-mel frames.
        cumulative: From the source, by `extent` or `extent_in_time`.
        cumulative_cut: The same without skipping paths; `None` where there are none.
        block: From the layer measured before: the mixing distance; `None` where it was not asked for.
        block_cut: Likewise.
        frequency: By `extent_in_frequency`; `None` of pictures.
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
        """The layer's, as in `named_modules`."""
        return self.fields.layer.name

    @property
    def stride(self) -> float:
        """Px or ms from unit to unit."""
        return self.cell * self.fields.stride

    @property
    def reach(self) -> tuple[float, float] | None:
        """How far before (above) and after (below) a unit's center the layer could look, in px or ms.

        From the center to the farthest place; inf is without a limit, and `None` is not known: something mixes places
        that the graph does not tell of.
        """
        span = self.fields.cumulative.theoretical[0]
        return (-span.low * self.cell, span.high * self.cell) if self.fields.cumulative.known else None


def layer_numbers(
    network: nn.Module, inputs: Tensor, layers: Sequence[Layer], source: Layer, *, cumulative_only: bool = False
) -> list[LayerNumbers]:
    """Measure the layers of a network, in the order in which they run; see `effective_fields`.

    Args:
        network: In evaluation mode; of speech with its front end in `tokens`.
        inputs: Pictures (B, 3, N, N) or waveforms (B, N).
        layers: Which.
        source: Its input, or the log-mel frames.
        cumulative_only: As `effective_fields` takes it.
    """
    log_mel = network.tokens.log_mel if source.in_time else None
    cell = 1.0 if log_mel is None else log_mel.hop_ms
    found = []
    measured = effective_fields(network, inputs, layers, source=source, cumulative_only=cumulative_only)
    for number, fields in enumerate(measured, 1):
        if log_mel is None:
            numbers_of = partial(numbers_of_picture, stride=fields.stride)
        else:
            numbers_of = partial(numbers_of_speech, hop=cell)
        found.append(
            LayerNumbers(
                fields,
                number / len(layers),
                cell,
                numbers_of(fields.cumulative, 1.0),
                numbers_of(fields.cumulative_cut, 1.0),
                numbers_of(fields.block, fields.block_stride),
                numbers_of(fields.block_cut, fields.block_stride),
                None if log_mel is None else extent_in_frequency(fields.cumulative, log_mel.centers_hz),
            )
        )
    return found


def numbers_of_picture(field: Field | None, step: float, *, stride: float) -> Numbers | None:
    """In px; `step` px lie between the places of the field, `stride` px between units."""
    return None if field is None else extent(field, cell=step, own=stride / step)


def numbers_of_speech(field: Field | None, step: float, *, hop: float) -> Numbers | None:
    """In ms; `step` frames of `hop` ms lie between the places of the field."""
    return None if field is None else extent_in_time(field, cell_ms=step * hop)
