"""The figures of the report, drawn from hand-made results: what is drawn where, in which unit, and what is left out.

Shapes: B inputs, L layers, H heads, N side of a picture, F frames, M mel bins.
"""

import io
from dataclasses import replace
from functools import partial
from math import inf, nan
from types import SimpleNamespace

import numpy
import pytest
import torch
from matplotlib.colors import LogNorm
from matplotlib.text import Text

from vitspeech.frontends.log_mel import LogMel
from vitspeech.receptive.compare import Result, State
from vitspeech.receptive.fields.effective import LayerFields
from vitspeech.receptive.fields.field import Field, measure_image, measure_time
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.fields.layers import Layer
from vitspeech.receptive.fields.theoretical import Span
from vitspeech.receptive.heads.measures import HeadMeasures
from vitspeech.receptive.occlusion import VisibleAccuracy
from vitspeech.receptive.report.curves import draw_past_and_ahead, draw_sides
from vitspeech.receptive.report.figures import draw_figures
from vitspeech.receptive.report.layout import STATES, WIDTH
from vitspeech.receptive.report.maps import draw_image_fields
from vitspeech.receptive.statistics import Estimate
from vitspeech.receptive.subjects import Subject

SIDE, FRAMES, MELS, HOP_MS = 11, 29, 7, 8.0
EVERYWHERE = Span(-inf, inf, 0)
PICTURES = {"fields", "energy", "depth", "blocks", "states", "heads", "visible"}
LONG = "timm:vit_small_patch16_224.augreg_in21k_ft_in1k"
figures_of = partial(draw_figures, sample=None)  # no result has examples


def numbers(names, first):
    """Different numbers, with intervals of ±1."""
    return {name: Estimate(first + place, first + place - 1, first + place + 1) for place, name in enumerate(names)}


def picture_layer(number, count, reach):
    """A layer with a quarter of its energy at the center, and the rest `number` + 1 px below it, at most 10."""
    energy = torch.zeros(3, 2 * SIDE - 1, 2 * SIDE - 1)
    energy[:, SIDE - 1, SIDE - 1], energy[:, SIDE + min(number, 9), SIDE - 1] = 1, 3
    offsets = torch.arange(2.0 * SIDE - 1) - (SIDE - 1)
    span = Span(-reach, reach, 0)
    seen = torch.ones_like(energy[0])
    field = Field(energy, seen, offsets, offsets, (span, span), [(1, 1)], (5, 5), 0.0)
    name = f"stages.{number}.blocks"
    fields = LayerFields(Layer(name), (5, 5), 2.0, field, None, field, None, 2.0)
    lengths = numbers(("side_50", "side_90", "radius_50", "radius_90"), number + 2)
    block, cut = numbers(["width"], number), numbers(["width"], number + 20) if number else None
    measure, flat = partial(measure_image, cell=1.0, own=2.0), {"cumulative": {"side_50": 8.0, "side_90": 13.0}}
    return LayerNumbers(fields, (number + 1) / count, 1.0, measure, lengths, None, block, cut, None, flat)


def speech_layer(number, count, back, ahead):
    """A layer with energy uniform over mel bins, and 3 times as much in the next frame as in the unit's own."""
    energy = torch.zeros(3, 2 * FRAMES - 1, MELS)
    energy[:, FRAMES - 1], energy[:, FRAMES] = 1, 3
    rows = torch.arange(2.0 * FRAMES - 1) - (FRAMES - 1)
    seen, spans = torch.ones_like(energy[0]), (Span(-back, ahead, 0), EVERYWHERE)
    field = Field(energy, seen, rows, torch.arange(MELS), spans, [(3, 0)], (9, 0), 0.0)
    fields = LayerFields(Layer(f"blocks.{number}", "frames"), (FRAMES, 1), 1.0, field, None, field, None, 1.0)
    sides = ("back_50", "back_90", "ahead_50", "ahead_90")
    cumulative = numbers(sides, 10 * number + 5) | {"ahead_share": Estimate(0.75, 0.5, 0.9)}
    frequency = numbers(("effective_bins", "low_hz"), number + 3) | {"high_hz": Estimate(3000, 2000, 4000)}
    block = numbers(["width"], number)
    measure, flat = partial(measure_time, cell_ms=HOP_MS), {"cumulative": {"back_90": 90.0, "ahead_90": 80.0}}
    return LayerNumbers(fields, (number + 1) / count, HOP_MS, measure, cumulative, None, block, None, frequency, flat)


def heads(count, *, hears):
    """Measures of 2 heads in each layer."""
    values = torch.arange(2.0 * count).reshape(count, 2)
    measures = {name: values + place for place, name in enumerate(("distance", "relative_distance", "entropy"))}
    if hears:
        measures |= {"diagonality": values / 10, "look_back": values, "look_ahead": values + 5}
    return HeadMeasures([f"blocks.{n}.attention" for n in range(count)], convolution_likeness=values, **measures)


def visible(radii):
    """Accuracies on 100 inputs; 90 % of the full accuracy, 0.72, is halfway between the second and third radius."""
    correct = torch.arange(100) < torch.tensor([[10], [68], [76], [80]])
    return VisibleAccuracy(radii, {"mean": correct, "blur": correct, "shuffle": correct})


def image_result(name, *, count=3, reach=(0.5, 2, inf), attention=True, trained=True):
    """An image model at two sizes, before and after training."""
    subject = Subject(name, trained, SIDE, {"image": SIDE}, None)
    layers = [picture_layer(number, count, reach[min(number, len(reach) - 1)]) for number in range(count)]
    kinds = [(trained, SIDE), (trained, 17), *([(False, SIDE)] if trained else [])]
    result = Result(subject, 5, [State(*kind, layers) for kind in kinds])
    if attention:
        result.heads, result.visible = heads(2, hears=False), visible([0.0, 1.5, 3.5, 5.0])
    return result


def speech_result(name, *, attention=True):
    """A speech model at two clip lengths, before and after training; its clips have 250 ms."""
    network = SimpleNamespace(tokens=SimpleNamespace(log_mel=LogMel(MELS, hop_ms=HOP_MS)))
    model = SimpleNamespace(network=network)
    subject = Subject(name, True, 0.25, {"sample_rate_hz": 16_000, "seconds": 0.25}, None, model)
    layers = [speech_layer(number, 2, *reach) for number, reach in enumerate([(3, 1), (inf, 2)])]
    result = Result(subject, 5, [State(*kind, layers) for kind in ((True, 0.25), (True, 0.4), (False, 0.25))])
    if attention:
        result.heads, result.visible = heads(2, hears=True), visible([0.0, 2.0, 4.0, 20.0])
    return result


@pytest.fixture(scope="module")
def pictures():
    """The figures of two image models, one of them an untrained convolutional network."""
    return figures_of([image_result("vit"), image_result("cnn", count=5, attention=False, trained=False)])


@pytest.fixture(scope="module")
def speech():
    """The figures of two speech models, one of them without attention."""
    return figures_of([speech_result("recognizer"), speech_result("convolutional", attention=False)])


def images(figures):
    return [image for axes in figures["fields"].figure.axes for image in axes.images]


def lines(axes, dashes=None):
    """The points of each line, or of each line with those dashes."""
    return [line.get_xydata().tolist() for line in axes.lines if dashes in (None, line.get_linestyle())]


def labels(figure):
    """All axis labels, including those of color bars."""
    sides = [figure.get_supxlabel(), figure.get_supylabel()]
    return [*sides, *(label for axes in figure.axes for label in (axes.get_xlabel(), axes.get_ylabel()))]


def save(figure):
    """The figure as a PNG, without the layout of panels, which takes most of the time."""
    buffer = io.BytesIO()
    figure.set_layout_engine("none")
    figure.savefig(buffer, format="png", dpi=30)
    return buffer.getvalue()


def test_each_measurement_has_a_figure_with_texts_that_name_every_model_and_numbers(pictures, speech):
    assert set(pictures) == PICTURES
    assert set(speech) == PICTURES | {"frequency"}
    for figures, names in ((pictures, ("vit", "cnn")), (speech, ("recognizer", "convolutional"))):
        for figure in figures.values():
            assert figure.caption.endswith(".") and "{" not in figure.title + figure.caption + figure.alt
            assert len(figure.title) < 50 and figure.figure.get_figwidth() == WIDTH
            assert all(name in figure.alt for name in names) and any(map(str.isdigit, figure.alt))
    results = [image_result("narrow", count=2), image_result("wide", count=5)]
    assert "last layer: wide 7, narrow 4" in figures_of(results)["fields"].alt


def test_text_is_at_least_7_px_high_in_a_figure_scaled_to_400_px(pictures, speech):
    for figure in (*pictures.values(), *speech.values()):
        figure.figure.set_layout_engine("none")
        figure.figure.draw_without_rendering()
        texts = [text for text in figure.figure.findobj(Text) if text.get_text() and text.get_visible()]
        assert texts and min(text.get_fontsize() for text in texts) * 400 / (72 * WIDTH) >= 7


def test_residual_branches_that_are_zero_at_initialization_are_noted_beside_untrained_states():
    result = image_result("resnet")
    assert not any("*" in figure.caption for figure in figures_of([result]).values())
    note = "residual branches are multiplied by 0 at initialization; measured with them switched on"
    result.states = [state if state.trained else replace(state, zero_init=note) for state in result.states]
    figures = figures_of([result])
    for name in ("energy", "depth", "states"):
        assert f"* resnet, untrained: {note}." in figures[name].caption
    for name in ("energy", "depth"):
        assert "untrained*" in [text.get_text() for text in figures[name].figure.legends[0].texts]
    assert "untrained*, 11 px" in [label.get_text() for label in figures["states"].figure.axes[0].get_yticklabels()]
    assert "*" not in figures["heads"].caption  # measured in the trained state


def test_figures_without_measurements_are_left_out():
    assert set(figures_of([image_result("cnn", attention=False)])) == PICTURES - {"heads", "visible"}


@pytest.mark.parametrize("which, largest", [("pictures", 0.75), ("speech", 0.75 / MELS)])
def test_all_panels_share_one_color_scale(which, largest, request):
    panels = images(request.getfixturevalue(which))
    assert len(panels) == {"pictures": 3 + 5, "speech": 2 + 2}[which]
    assert len({id(image.norm) for image in panels}) == 1 and isinstance(panels[0].norm, LogNorm)
    assert (panels[0].norm.vmin, panels[0].norm.vmax) == pytest.approx((largest / 1e5, largest))


def test_panels_are_zoomed_to_their_field_and_have_their_own_ticks(pictures):
    panels = [image.axes for image in images(pictures)]
    extents = [panel.get_xlim()[1] for panel in panels]
    contents = [1.5, 2.5, 3.5, 1.5, 2.5, 3.5, 4.5, 5.5]  # the last pixel with energy
    assert all(1 < extent / content < 1.3 for extent, content in zip(extents, contents, strict=True))
    for panel, extent in zip(panels, extents, strict=True):
        assert panel.get_xlim() == (-extent, extent)
        assert panel.get_ylim() == (extent, -extent)  # rows below the unit are below it
        left, middle, right = panel.get_xticks()
        assert middle == 0 and -left == right and extent / 3 < right < extent
        assert [label.get_text() for label in panel.get_xticklabels()] == [f"−{right:g}", "0", f"{right:g}"]
    assert "different extents" in pictures["fields"].figure.get_supxlabel()
    assert "different extents" in pictures["fields"].caption


def test_pixels_are_centered_at_their_offset(pictures):
    image = images(pictures)[1]
    left, right, bottom, top = image.get_extent()
    assert (left, right, bottom, top) == (-10.5, 10.5, 10.5, -10.5)
    assert image.get_array()[SIDE - 1 + 2, SIDE - 1] == 0.75 and image.get_array().count() == 2  # the rest is gray


def test_speech_fields_have_time_on_x_and_frequency_on_y(speech):
    image = images(speech)[0]
    assert image.get_array().shape == (MELS, 2 * FRAMES - 1) and image.origin == "lower"
    assert image.get_extent()[:2] == [-28.5 * HOP_MS, 28.5 * HOP_MS]
    places, names = image.axes.get_yticks(), [label.get_text() for label in image.axes.get_yticklabels()]
    assert names == ["1,000", "4,000"] and 0 < places[0] < places[1] < MELS - 1


def test_theoretical_squares_are_drawn_if_they_fit(pictures):
    first, second, third = (image.axes.patches for image in images(pictures)[:3])
    assert [(square.get_x(), square.get_width(), square.get_height()) for square in second] == [
        (-1.5 - 0.5, 4, 4),  # side_90 of the second layer
        (-2.5, 5, 5),  # the px from −2 to 2
    ]
    assert len(first) == 2 and len(third) == 1  # the third has no limit


def test_energy_reaches_1_at_the_largest_radius_with_energy(pictures):
    (axes,) = pictures["energy"].figure.axes
    curves = [line for line in lines(axes) if len(line) > 2]
    assert len(curves) == 3  # trained and untrained, and what has no weights
    for curve, radius in zip(curves, (3, 3, 5), strict=True):
        assert curve[0] == [0, 0.25] and curve[-1] == [radius, 1]
        assert all(share == 0.25 for _, share in curve[:-1])


def test_states_differ_in_dashes_and_theoretical_sides_are_drawn(pictures):
    _, top_right, _, bottom_right = pictures["depth"].figure.axes
    vit = [[1 / 3, 3], [2 / 3, 4], [1, 5]]
    assert vit in lines(top_right, STATES["trained"]) and vit in lines(top_right, STATES["untrained"])
    unlimited = 1.7 * 13  # above the largest finite value: the side of the uniform field
    assert [[1 / 3, 13], [2 / 3, 13], [1, 13]] in lines(top_right)
    assert [[1 / 3, 2], [2 / 3, 5], [1, unlimited]] in lines(top_right)  # 2 · reach + 1
    assert top_right.get_yticks()[-1] == unlimited
    at_17 = [[place, side / 17] for place, side in vit]
    assert any(numpy.allclose(line, at_17) for line in lines(bottom_right, STATES["other size"]) if len(line) == 3)
    assert len(set(STATES.values())) == 3


def test_every_line_of_the_depth_figures_is_within_its_axes(pictures, speech):
    finite_reach = draw_sides([image_result("cnn", reach=(0.5, 200))])
    for figure in (pictures["depth"].figure, speech["depth"].figure, finite_reach):
        for axes in figure.axes:
            (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
            curves = [numpy.array(line) for line in lines(axes)]
            assert len(curves) >= 2
            for curve in curves:
                assert (left <= curve[:, 0]).all() and (curve[:, 0] <= right).all()
                assert (bottom < curve[:, 1]).all() and (curve[:, 1] < top).all()


def test_past_is_below_zero_and_look_ahead_above(speech):
    trained, untrained, longer = speech["depth"].figure.axes
    assert [panel.get_title().split(",")[0] for panel in (trained, untrained, longer)] == list(STATES)
    # Of the first model, after the line at 0; "flat" is the uniform field.
    past, past_flat, past_limit, ahead, ahead_flat, ahead_limit = lines(trained)[1:7]
    assert [past_flat, ahead_flat] == [[[0.5, -90], [1, -90]], [[0.5, 80], [1, 80]]]
    assert [past, ahead] == [[[0.5, -6], [1, -16]], [[0.5, 8], [1, 18]]]
    unlimited = pytest.approx(-1.7 * 90)
    assert past_limit[0] == [0.5, -3 * HOP_MS] and past_limit[1] == [1, unlimited]
    assert ahead_limit == [[0.5, HOP_MS], [1, 2 * HOP_MS]]
    assert longer.get_title().endswith("0.4 s")


def test_states_are_drawn_in_px_and_as_a_fraction_of_the_image_side(pictures):
    lengths, fractions = pictures["states"].figure.axes
    assert [label.get_text() for label in lengths.get_yticklabels()] == [
        "untrained, 11 px",
        "trained, 11 px",
        "trained, 17 px",
        "untrained, 11 px",
        "untrained, 17 px",
    ]
    spans = [sorted({x for x, _ in line}) for line in lines(lengths) if len(line) == 2]
    assert spans[:3] == [[6, 7], [5, 7], [6, 8]]  # both radii of the last layer, and their intervals
    relative = [line[0][0] for line in lines(fractions) if len(line) == 2]
    assert relative[0] == pytest.approx(6 / 11) and relative[6] == pytest.approx(6 / 17)


def test_each_head_is_a_point(pictures, speech):
    spread = pictures["heads"].figure.axes[0].collections
    assert [points.get_offsets().tolist() for points in spread] == [[[1, 2], [2, 3], [3, 4], [4, 5]]]
    assert spread[0].get_array().tolist() == [0.5, 0.5, 1, 1]
    sides = next(axes for axes in speech["heads"].figure.axes if "past" in axes.get_xlabel())
    assert sides.collections[0].get_offsets().tolist() == [[0, 5], [1, 6], [2, 7], [3, 8]]


def test_visible_ends_with_the_complete_input_and_marks_90_percent_of_its_accuracy(pictures, speech):
    for figures, cell, last in ((pictures, 1, 3.5), (speech, HOP_MS, 4.0)):
        panels = figures["visible"].figure.axes
        assert len(panels) == 3 and all("outside" in axes.get_title() for axes in panels)
        curve, kept = lines(panels[0])
        assert curve[:3] == [[0, 0.1], [curve[1][0], 0.68], [last * cell, 0.76]] and curve[3][1] == 0.8
        assert curve[3][0] > last * cell
        assert panels[0].get_xticklabels()[-1].get_text() == "all" and panels[0].get_xticks()[-1] == curve[3][0]
        halfway = (curve[1][0] + curve[2][0]) / 2
        assert kept[0] == pytest.approx([halfway, 0.72])
        assert [text.get_text() for text in figures["visible"].figure.legends[0].texts][1:] == [
            "90 % of the full accuracy"
        ]


def with_agreement(result):
    return replace(result, visible=replace(result.visible, agreement=True))


@pytest.mark.parametrize("result", [image_result, speech_result])
def test_agreement_is_not_called_accuracy(result):
    alone = figures_of([with_agreement(result("foreign"))])["visible"]
    assert alone.title == "Agreement within a window" and "agreement" in alone.alt
    assert not any("accuracy" in text.lower() for text in (alone.title, alone.alt, *labels(alone.figure)))
    both = figures_of([result("labeled"), with_agreement(result("foreign"))])["visible"]
    assert both.figure.axes[0].get_ylabel() == "accuracy or agreement"
    labeled = figures_of([result("labeled")])["visible"]
    assert not any("agreement" in text.lower() for text in (labeled.title, labeled.alt))


def test_six_long_names_stay_within_the_figure():
    for draw, model in ((draw_sides, image_result), (draw_past_and_ahead, speech_result)):
        figure = draw([model(f"{LONG}.{number}") for number in range(6)])
        figure.draw_without_rendering()
        box, legend = figure.bbox, figure.legends[0].get_window_extent()
        assert box.x0 <= legend.x0 and legend.x1 <= box.x1 and legend.y1 <= box.y1
        assert all(panel.get_window_extent().y1 < legend.y0 for panel in figure.axes)


def test_figures_are_drawn_if_numbers_are_unknown_or_not_finite():
    def broken(layer, name):
        unknown = replace(layer.fields.cumulative, outside=0.5)
        none = {number: Estimate(nan, nan, nan) for number in layer.block}
        gone = {number: Estimate(inf, inf, inf) for number in layer.cumulative if number != name}
        fields = replace(layer.fields, cumulative=unknown)
        return replace(
            layer,
            fields=fields,
            block=none if layer.depth < 1 else None,
            cumulative=layer.cumulative | gone,
            frequency=None,
        )

    for result, number in (
        (image_result("vit", attention=False), "side_90"),
        (speech_result("recognizer", attention=False), "ahead_share"),
    ):
        layers = [broken(layer, number) for layer in result.main.layers]
        result.states = [State(state.trained, state.size, layers) for state in result.states]
        result.heads = heads(2, hears=result.subject.takes_audio)
        result.heads.relative_distance[:] = nan
        for figure in figures_of([result]).values():
            assert save(figure.figure).startswith(b"\x89PNG")


def test_an_unknown_theoretical_field_is_not_drawn():
    result = image_result("vit", reach=(2,))
    unknown = [
        replace(layer, fields=replace(layer.fields, cumulative=replace(layer.fields.cumulative, outside=0.5)))
        for layer in result.main.layers
    ]
    known = draw_image_fields([result])
    result.states = [State(True, SIDE, unknown)]
    hidden = draw_image_fields([result])
    for figure, squares in ((known, 2), (hidden, 1)):
        assert [len(axes.patches) for axes in figure.axes if axes.images] == [squares] * 3
    assert lines(draw_sides([result]).axes[0])[-1] == []
