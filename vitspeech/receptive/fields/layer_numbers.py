"""Theoretical and effective receptive fields of a network's layers as numbers, in pixels or milliseconds.

Shapes: B inputs, N image side in pixels or samples of a clip.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor, nn

from vitspeech.metrics.intervals import Numbers
from vitspeech.receptive.fields.effective import LayerFields, effective_fields, iterate_fields
from vitspeech.receptive.fields.layers import Layer, default_layers
from vitspeech.receptive.fields.measures import (
    Field,
    Measure,
    estimates,
    mean_of,
    measure_frequency,
    measure_image,
    measure_time,
    uniform,
)


@dataclass(frozen=True)
class LayerNumbers:
    """The numbers of one layer, in px for images and in ms for audio."""

    # the fields that the numbers describe; but for the last layer only that in the source, with its mean over inputs
    # instead of every input
    fields: LayerFields
    depth: float  # relative depth of the layer, above 0; 1 is the last layer measured
    cell: float  # px or ms between neighboring positions of the source: 1 px, or the hop of the log-mel frames
    measure: Measure  # computes the numbers of the field in the source from the field
    cumulative: Numbers  # of the field in the source, from `extent` or `extent_in_time`
    # the same without residual shortcuts; `None` if there are none, or it was not measured
    cumulative_cut: Numbers | None
    block: Numbers | None  # of the field in the layer measured before (the mixing distance); `None` if not measured
    block_cut: Numbers | None  # the same without residual shortcuts
    frequency: Numbers | None  # from `extent_in_frequency`; `None` for images
    # the same numbers of a uniform field, by the names `cumulative`, `block` and `frequency`
    uniform: dict[str, dict[str, float]]

    @property
    def name(self) -> str:
        """The layer's name, as in `named_modules`."""
        return self.fields.layer.name

    @property
    def stride(self) -> float:
        """Px or ms between neighboring units."""
        return self.cell * self.fields.stride

    @property
    def theoretical(self) -> tuple[float, float] | None:
        """The theoretical field before (above) and after (below) a unit's center, in px or ms.

        Measured from the center to the farthest position; inf is unlimited. `None` if the theoretical field is not
        known, because the graph has an operation that mixes positions and is not in `theoretical.RULES`.
        """
        span = self.fields.cumulative.theoretical[0]
        return (-span.low * self.cell, span.high * self.cell) if self.fields.cumulative.known else None


def layer_numbers(
    network: nn.Module,
    inputs: Tensor,
    layers: Sequence[Layer],
    source: Layer,
    *,
    cumulative_only: bool = False,
    progress: Callable[[float], None] = lambda part: None,
) -> list[LayerNumbers]:
    """Measure layers of a network, in the order in which they run; see `effective_fields` and `iterate_fields`.

    The field in the source, the input or the log-mel frames, without residual shortcuts is that of the last layer
    alone. Inputs are images (B, 3, N, N), or waveforms (B, N) for networks with their front end as `tokens`.
    """
    log_mel = network.tokens.log_mel if source.in_time else None
    options = {"cumulative_only": cumulative_only, "for_numbers": True, "progress": progress}
    measured = iterate_fields(network, inputs, layers, source, **options)
    return [numbers_of(fields, number / len(layers), log_mel) for number, fields in enumerate(measured, 1)]


def numbers_of(fields: LayerFields, depth: float, log_mel: nn.Module | None) -> LayerNumbers:
    """The numbers of one layer; `log_mel` is the front end of a network for audio."""
    cell = 1.0 if log_mel is None else log_mel.hop_ms

    def measure_at(step: float) -> Measure:
        """For a field whose neighboring positions are `step` positions of the source apart."""
        if log_mel is None:
            return partial(measure_image, cell=step)
        return partial(measure_time, cell_ms=step * cell)

    def numbers(field: Field | None, step: float) -> Numbers | None:
        return None if field is None else estimates(field, measure_at(step))

    flat = {"cumulative": uniform(fields.cumulative, measure_at(1.0))}
    if fields.block is not None:
        flat["block"] = uniform(fields.block, measure_at(fields.block_stride))
    in_frequency = None
    if log_mel is not None:
        measure_bins = partial(measure_frequency, centers_hz=log_mel.centers_hz)
        in_frequency = estimates(fields.cumulative, measure_bins)
        flat["frequency"] = uniform(fields.cumulative, measure_bins)
    last = depth == 1
    # The mean over inputs in place of every input takes far less memory.
    averaged = replace(fields.cumulative, energy=fields.cumulative.mean[None])
    kept = fields if last else replace(fields, cumulative=averaged, cumulative_cut=None, block=None, block_cut=None)
    return LayerNumbers(
        fields=kept,
        depth=depth,
        cell=cell,
        measure=measure_at(1.0),
        cumulative=numbers(fields.cumulative, 1.0),
        cumulative_cut=numbers(fields.cumulative_cut if last else None, 1.0),
        block=numbers(fields.block, fields.block_stride),
        block_cut=numbers(fields.block_cut, fields.block_stride),
        frequency=in_frequency,
        uniform=flat,
    )


def effective_field_ms(network: nn.Module, waveforms: Tensor) -> tuple[float, float]:
    """The effective field of a speech encoder's last block back and ahead of a token's center, in milliseconds.

    90 % of the gradient energy in the log-mel frames before (after) the center of the token lies within that distance;
    these are `back_90` and `ahead_90` of `extent_in_time`. A token is itself made of 85 ms of sound by default, so a
    causal encoder hears a little ahead, too. The measured tokens are in the middle half of the clips, and nothing
    beyond the clips counts: compare networks on the same clips, which should be several times longer than the field.

    Args:
        network: A speech network, trained, in evaluation mode.
        waveforms: At least two clips of sound within ±1 (B, N); a few dozen give the numbers to about a tenth.
    """
    source, layer = Layer("tokens.log_mel", "mel"), default_layers(network, waveforms)[-1]
    (fields,) = effective_fields(network, waveforms, [layer], source=source, cumulative_only=True)
    field = fields.cumulative
    numbers = measure_time(field, mean_of(field), cell_ms=network.tokens.log_mel.hop_ms)
    return float(numbers["back_90"]), float(numbers["ahead_90"])
