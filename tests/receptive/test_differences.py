"""Paired differences of two models whose fields are known: on which offsets, and in which unit, they are compared.

Shapes: B inputs, I rows, J columns.
"""

from functools import partial
from math import inf

import pytest
import torch

from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.differences import MODELS, pairs
from vitspeech.receptive.fields.effective import LayerFields
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.fields.layers import Layer
from vitspeech.receptive.fields.measures import Field, estimates, measure_image, measure_time
from vitspeech.receptive.fields.theoretical import Span
from vitspeech.receptive.subjects import Subject

UNLIMITED = Span(-inf, inf, 0)


def result_of(name, energy, rows, columns, *, hop_ms=None):
    """A model whose last layer has that energy (I, J) at these offsets, for every input."""
    span = (UNLIMITED, UNLIMITED)
    field = Field(energy.expand(3, -1, -1), torch.ones_like(energy), rows, columns, span, [(0, 0)], (0.0, 0.0), 0.0)
    fields = LayerFields(Layer("blocks.0"), (1, 1), 1.0, field, None, None, None, 1.0)
    measure = partial(measure_image, cell=1.0) if hop_ms is None else partial(measure_time, cell_ms=hop_ms)
    layer = LayerNumbers(fields, 1.0, hop_ms or 1.0, measure, estimates(field, measure), None, None, None, None, {})
    preprocessing = {"image": 32} if hop_ms is None else {"sample_rate_hz": 16_000}
    return Result(Subject(name, True, 1.0, preprocessing, None), 1, [State(True, 1.0, [layer])])


def speech(name, *, hop_ms, mels, reach):
    """Half of the energy in the lowest mel bin now, a quarter in the highest bin 400 ms before and after."""
    rows = torch.arange(-reach, reach + 1.0)
    energy = torch.zeros(len(rows), mels)
    energy[reach, 0] = 2
    energy[[reach - round(400 / hop_ms), reach + round(400 / hop_ms)], -1] = 1
    return result_of(name, energy, rows, torch.arange(mels), hop_ms=hop_ms)


@pytest.mark.parametrize("mels", [40, 80])
@pytest.mark.parametrize("hop_ms", [10, 20])
def test_speech_models_are_compared_in_ms_and_over_all_their_mel_bins(hop_ms, mels):
    first = speech("first", hop_ms=10, mels=40, reach=71)
    second = speech("second", hop_ms=hop_ms, mels=mels, reach=700 // hop_ms)
    for results in ([first, second], [second, first]):
        (pair,) = pairs(results)
        assert pair.kind == MODELS and pair.window == (-700, 700)
        found = {d.number: d for d in pair.differences}
        for d, result in ((d, result) for d in found.values() for result in results):
            cell = result.main.layers[0].cell
            value = (d.first if result is results[0] else d.second).value
            expected = {"back_90": 400, "ahead_90": 400, "span_50": cell, "span_90": 800}[d.number]
            assert value == pytest.approx(expected, abs=cell)


def test_energy_outside_the_common_window_does_not_count():
    rows = torch.arange(-71, 72.0)
    energy = torch.zeros(143, 3)
    energy[71], energy[0] = 1, 5  # now, and 710 ms before
    (pair,) = pairs(
        [
            result_of("far", energy, rows, torch.arange(3), hop_ms=10),
            speech("near", hop_ms=20, mels=5, reach=35),
        ]
    )
    (back,) = (d for d in pair.differences if d.number == "back_90")
    assert pair.window == (-700, 700) and back.first.value == 0 and back.second.value == pytest.approx(400, abs=20)


def test_images_are_compared_on_the_rows_and_columns_that_count_in_both():
    def image(name, down, across):
        rows, columns = torch.arange(-down, down + 1.0), torch.arange(-across, across + 1.0)
        return result_of(name, torch.ones(len(rows), len(columns)), rows, columns)

    (pair,) = pairs([image("tall", 9, 4), image("wide", 5, 8)])
    assert pair.window == (-5, 5)
    assert all(d.first == d.second and d.change.value == 0 for d in pair.differences)
