"""The report's figures, of results made by hand: what is drawn where, in which unit, and what is left out.

Shapes: B inputs, L layers, H heads, N side of a picture, F frames, M mel bins.
"""

import io
from dataclasses import replace
from math import inf, nan
from types import SimpleNamespace

import numpy
import pytest
import torch
from matplotlib.colors import LogNorm

from vitspeech.frontends.log_mel import LogMel
from vitspeech.receptive.comparison import Result, State
from vitspeech.receptive.fields.effective import Field, LayerFields
from vitspeech.receptive.fields.extent import Estimate
from vitspeech.receptive.fields.layer_numbers import LayerNumbers
from vitspeech.receptive.fields.layers import Layer
from vitspeech.receptive.fields.theoretical import Span
from vitspeech.receptive.figures import pictures as picture_drawing
from vitspeech.receptive.figures import speech as speech_drawing
from vitspeech.receptive.figures.fields import shown_layers
from vitspeech.receptive.figures.layout import STATES, finite, shortened, with_looks, wrapped
from vitspeech.receptive.figures.pictures import figures_of_pictures
from vitspeech.receptive.figures.speech import figures_of_speech
from vitspeech.receptive.heads.measures import HeadMeasures
from vitspeech.receptive.occlusion.accuracy import VisibleAccuracy
from vitspeech.receptive.subjects import Subject

SIDE, FRAMES, MELS, HOP_MS = 11, 29, 7, 8.0
EVERYWHERE = Span(-inf, inf, 0)
PICTURES = {"fields", "energy", "depth", "blocks", "states", "heads", "visible"}
LONG = "timm:vit_small_patch16_224.augreg_in21k_ft_in1k"


def numbers(names, first):
    """Different numbers, with intervals of ±1."""
    return {name: Estimate(first + place, first + place - 1, first + place + 1) for place, name in enumerate(names)}


def picture_layer(number, count, reach):
    """Of its energy a quarter lies in the middle, the rest `number` + 1 px below it, at most 10."""
    energy = torch.zeros(3, 2 * SIDE - 1, 2 * SIDE - 1)
    energy[:, SIDE - 1, SIDE - 1], energy[:, SIDE + min(number, 9), SIDE - 1] = 1, 3
    offsets = torch.arange(2.0 * SIDE - 1) - (SIDE - 1)
    span = Span(-reach, reach, 0)
    field = Field(energy, offsets, offsets, (span, span), [(1, 1)], (5, 5), 0.0)
    name = f"stages.{number}.blocks"
    fields = LayerFields(Layer(name), (5, 5), 2.0, field, None, field, None, 2.0)
    lengths = numbers(("side_50", "side_90", "radius_50", "radius_90"), number + 2)
    block, cut = numbers(["width"], number), numbers(["width"], number + 20) if number else None
    return LayerNumbers(fields, (number + 1) / count, 1.0, lengths, None, block, cut, None)


def speech_layer(number, count, back, ahead):
    """Even over all mel bins, 3 times as much in the frame after as in the moment's own."""
    energy = torch.zeros(3, 2 * FRAMES - 1, MELS)
    energy[:, FRAMES - 1], energy[:, FRAMES] = 1, 3
    rows = torch.arange(2.0 * FRAMES - 1) - (FRAMES - 1)
    field = Field(energy, rows, torch.arange(MELS), (Span(-back, ahead, 0), EVERYWHERE), [(3, 0)], (9, 0), 0.0)
    fields = LayerFields(Layer(f"blocks.{number}", "frames"), (FRAMES, 1), 1.0, field, None, field, None, 1.0)
    sides = ("back_50", "back_90", "ahead_50", "ahead_90")
    cumulative = numbers(sides, 10 * number + 5) | {"ahead_share": Estimate(0.75, 0.5, 0.9)}
    frequency = numbers(("effective_bins", "low_hz"), number + 3) | {"high_hz": Estimate(3000, 2000, 4000)}
    block = numbers(["width"], number)
    return LayerNumbers(fields, (number + 1) / count, HOP_MS, cumulative, None, block, None, frequency)


def heads(count, *, hears):
    """Of 2 heads in each layer."""
    values = torch.arange(2.0 * count).reshape(count, 2)
    measures = {name: values + place for place, name in enumerate(("distance", "relative_distance", "entropy"))}
    if hears:
        measures |= {"diagonality": values / 10, "look_back": values, "look_ahead": values + 5}
    return HeadMeasures([f"blocks.{n}.attention" for n in range(count)], convolution_likeness=values, **measures)


def visible(radii):
    """Of 100 inputs; 90 % of the whole accuracy, 0.72, lie halfway between the second radius and the third."""
    curve = [0.1, 0.68, 0.76, 0.8]
    return VisibleAccuracy(radii, {"mean": curve, "blur": curve, "shuffle": curve}, 100)


def sees(name, *, count=3, reach=(0.5, 2, inf), attention=True, trained=True):
    """A model of pictures at two sizes, before and after training."""
    subject = Subject(name, trained, SIDE, {"image": SIDE}, None)
    layers = [picture_layer(number, count, reach[min(number, len(reach) - 1)]) for number in range(count)]
    kinds = [(trained, SIDE), (trained, 17), *([(False, SIDE)] if trained else [])]
    result = Result(subject, 5, [State(*kind, layers) for kind in kinds])
    if attention:
        result.heads, result.visible = heads(2, hears=False), visible([0.0, 1.5, 3.5, 5.0])
    return result


def hears(name, *, attention=True):
    """A model of speech likewise; its clips have 250 ms."""
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
    """Two models that see, one of them a convolutional network that was not trained."""
    return figures_of_pictures([sees("vit"), sees("cnn", count=5, attention=False, trained=False)])


@pytest.fixture(scope="module")
def speech():
    """Two models that hear, one of them without attention."""
    return figures_of_speech([hears("recognizer"), hears("convolutional", attention=False)])


def images(drawn):
    return [image for axes in drawn["fields"].figure.axes for image in axes.images]


def lines(axes, dashes=None):
    """The points of each line with those dashes, or of all."""
    return [line.get_xydata().tolist() for line in axes.lines if dashes in (None, line.get_linestyle())]


def labels(figure):
    """All that is written along axes, color bars included."""
    sides = [figure.get_supxlabel(), figure.get_supylabel()]
    return [*sides, *(label for axes in figure.axes for label in (axes.get_xlabel(), axes.get_ylabel()))]


def save(figure):
    """The picture as PNG, its panels where they are: to place them takes longest."""
    buffer = io.BytesIO()
    figure.set_layout_engine("none")
    figure.savefig(buffer, format="png", dpi=30)
    return buffer.getvalue()


def test_everything_measured_has_its_figure_and_its_words(pictures, speech):
    assert set(pictures) == PICTURES
    assert set(speech) == PICTURES | {"frequency"}
    for drawn in (*pictures.values(), *speech.values()):
        assert drawn.title and drawn.caption.endswith(".")
        assert len(drawn.title) < 50 and 10 <= drawn.figure.get_figwidth() <= 12


def test_figures_without_data_are_left_out():
    assert set(figures_of_pictures([sees("cnn", attention=False)])) == PICTURES - {"heads", "visible"}
    assert set(figures_of_speech([hears("cnn", attention=False)])) == PICTURES - {"heads", "visible"} | {"frequency"}


def test_axes_carry_their_units(pictures, speech):
    units = {"px": pictures, "ms": speech}
    for unit, drawn in units.items():
        for name in set(drawn) - {"frequency"}:
            assert any(f"{unit} " in label or f"({unit})" in label for label in labels(drawn[name].figure)), name
        other = "ms" if unit == "px" else "px"
        everything = " ".join(label for figure in drawn.values() for label in labels(figure.figure)).split()
        assert not {other, f"({other})"} & set(everything)
    assert any("Hz" in label for label in labels(speech["fields"].figure))
    assert "frequency (Hz)" in labels(speech["frequency"].figure)


@pytest.mark.parametrize("which, largest", [("pictures", 0.75), ("speech", 0.75 / MELS)])
def test_one_scale_of_colors_is_for_all_panels(which, largest, request):
    drawn = images(request.getfixturevalue(which))
    assert len(drawn) == {"pictures": 3 + 5, "speech": 2 + 2}[which]
    assert len({id(image.norm) for image in drawn}) == 1 and isinstance(drawn[0].norm, LogNorm)
    assert (drawn[0].norm.vmin, drawn[0].norm.vmax) == pytest.approx((largest / 1e5, largest))


def test_all_fields_have_one_extent(pictures):
    panels = [image.axes for image in images(pictures)]
    assert {panel.get_xlim() for panel in panels} == {(-SIDE, SIDE)}
    assert {panel.get_ylim() for panel in panels} == {(SIDE, -SIDE)}  # rows below the unit are below it


def test_a_pixel_lies_around_its_offset(pictures):
    image = images(pictures)[1]
    left, right, bottom, top = image.get_extent()
    assert (left, right, bottom, top) == (-10.5, 10.5, 10.5, -10.5)
    assert image.get_array()[SIDE - 1 + 2, SIDE - 1] == 0.75 and image.get_array().count() == 2  # the rest is gray


def test_speech_runs_from_left_to_right_and_upwards(speech):
    image = images(speech)[0]
    assert image.get_array().shape == (MELS, 2 * FRAMES - 1) and image.origin == "lower"
    assert image.get_extent()[:2] == [-28.5 * HOP_MS, 28.5 * HOP_MS]
    places, names = image.axes.get_yticks(), [label.get_text() for label in image.axes.get_yticklabels()]
    assert names == ["1,000", "4,000"] and 0 < places[0] < places[1] < MELS - 1


def test_theoretical_squares_are_drawn_where_they_fit(pictures):
    first, second, third = (image.axes.patches for image in images(pictures)[:3])
    assert [(square.get_x(), square.get_width(), square.get_height()) for square in second] == [
        (-1.5 - 0.5, 4, 4),  # side_90 of the second layer
        (-2.5, 5, 5),  # the px from −2 to 2
    ]
    assert len(first) == 2 and len(third) == 1  # the third has no limit


def test_theoretical_windows_end_behind_their_last_frame(speech):
    first, second = (image.axes for image in images(speech)[:2])
    assert [line[0][0] for line in lines(first)] == [-3.5 * HOP_MS, 1.5 * HOP_MS]
    assert [line[0][0] for line in lines(second)] == [2.5 * HOP_MS]


def test_eight_layers_at_most_are_shown_with_the_first_and_the_last():
    depths = [layer.depth for layer in shown_layers(sees("deep", count=22))]
    assert [round(22 * depth) for depth in depths] == [1, 4, 7, 10, 13, 16, 19, 22]
    assert len(shown_layers(sees("flat", count=1))) == 1


def test_energy_rises_to_one_at_the_radius_where_it_ends(pictures):
    (axes,) = pictures["energy"].figure.axes
    curves = [line for line in lines(axes) if len(line) > 2]
    assert len(curves) == 3  # trained and untrained, and what has no weights
    for curve, radius in zip(curves, (3, 3, 5), strict=True):
        assert curve[0] == [0, 0.25] and curve[-1] == [radius, 1]
        assert all(share == 0.25 for _, share in curve[:-1])


def test_energy_over_time_is_a_share_of_ten_ms(speech):
    untrained, trained = [line for line in lines(speech["energy"].figure.axes[0]) if len(line) > 2]
    assert numpy.array_equal(trained, untrained, equal_nan=True)
    assert [point for point in trained if not numpy.isnan(point[1])] == [[0, 0.25 / 0.8], [HOP_MS, 0.75 / 0.8]]
    assert "75 % of the energy ahead" in speech["energy"].figure.axes[0].get_title()


def test_dashes_tell_states_apart_and_limits_do_not_stretch_the_panel(pictures):
    _, top_right, _, bottom_right = pictures["depth"].figure.axes
    vit = [[1 / 3, 3], [2 / 3, 4], [1, 5]]
    assert vit in lines(top_right, STATES["trained"]) and vit in lines(top_right, STATES["untrained"])
    assert [[1 / 3, 2], [2 / 3, 5], [1, 10 * SIDE]] in lines(top_right)  # 2 · reach + 1, and far for no limit
    assert top_right.get_ylim()[0] == 0 and 8 <= top_right.get_ylim()[1] < 10
    at_17 = [[place, side / 17] for place, side in vit]
    assert any(numpy.allclose(line, at_17) for line in lines(bottom_right, STATES["other size"]) if len(line) == 3)
    assert len(set(STATES.values())) == 3


def test_past_is_below_zero_and_look_ahead_above(speech):
    trained, untrained, longer = speech["depth"].figure.axes
    assert [panel.get_title().split(",")[0] for panel in (trained, untrained, longer)] == list(STATES)
    assert lines(trained)[:2] == [[[0.5, -6], [1, -16]], [[0.5, 8], [1, 18]]]
    limits = lines(trained)[-4:-2]  # of the first model, behind the line at 0
    assert limits == [[[0.5, -3 * HOP_MS], [1, -2500]], [[0.5, HOP_MS], [1, 2 * HOP_MS]]]
    assert -30 < longer.get_ylim()[0] < -17 and 19 < longer.get_ylim()[1] < 30  # limits leave the panel
    assert longer.get_title().endswith("0.4 s")


def test_blocks_are_drawn_with_their_skipping_paths_and_without(pictures):
    whole, cut = pictures["blocks"].figure.axes
    assert lines(whole)[0] == [[1 / 3, 0], [2 / 3, 1], [1, 2]]
    assert lines(cut)[0][1:] == [[2 / 3, 21], [1, 22]]
    assert lines(cut)[0][0][0] == 1 / 3 and numpy.isnan(lines(cut)[0][0][1])  # there is none to cut


def test_states_are_drawn_in_px_and_as_a_share_of_their_own_side(pictures):
    lengths, shares = pictures["states"].figure.axes
    assert [label.get_text() for label in lengths.get_yticklabels()] == [
        "untrained, 11 px",
        "trained, 11 px",
        "trained, 17 px",
        "untrained, 11 px",
        "untrained, 17 px",
    ]
    spans = [sorted({x for x, _ in line}) for line in lines(lengths) if len(line) == 2]
    assert spans[:3] == [[6, 7], [5, 7], [6, 8]]  # both radii of the last layer, and their intervals
    relative = [line[0][0] for line in lines(shares) if len(line) == 2]
    assert relative[0] == pytest.approx(6 / 11) and relative[6] == pytest.approx(6 / 17)


def test_past_lies_left_of_look_ahead_in_states(speech):
    lengths, shares = speech["states"].figure.axes
    assert [x for x, _ in lines(lengths)[0]] == [-16, -15, 17, 18]
    assert [[x for x, _ in line] for line in lines(lengths)[1:5]] == [[-15, -17], [-16], [-14, -16], [-15]]
    assert [x for x, _ in lines(shares)[0]] == pytest.approx([-16 / 250, -15 / 250, 17 / 250, 18 / 250])


def test_each_head_is_a_point(pictures, speech):
    spread = pictures["heads"].figure.axes[0].collections
    assert [points.get_offsets().tolist() for points in spread] == [[[1, 2], [2, 3], [3, 4], [4, 5]]]
    assert spread[0].get_array().tolist() == [0.5, 0.5, 1, 1]
    sides = next(axes for axes in speech["heads"].figure.axes if "past" in axes.get_xlabel())
    assert sides.collections[0].get_offsets().tolist() == [[0, 5], [1, 6], [2, 7], [3, 8]]


def test_visible_ends_with_the_whole_and_marks_where_enough_is_kept(pictures, speech):
    for drawn, cell, last in ((pictures, 1, 3.5), (speech, HOP_MS, 4.0)):
        panels = drawn["visible"].figure.axes
        assert len(panels) == 3 and all("outside" in axes.get_title() for axes in panels)
        curve, kept = lines(panels[0])
        assert curve[:3] == [[0, 0.1], [curve[1][0], 0.68], [last * cell, 0.76]] and curve[3][1] == 0.8
        assert curve[3][0] > last * cell
        assert panels[0].get_xticklabels()[-1].get_text() == "whole" and panels[0].get_xticks()[-1] == curve[3][0]
        halfway = (curve[1][0] + curve[2][0]) / 2
        assert kept[0] == pytest.approx([halfway, 0.72])
        assert [text.get_text() for text in drawn["visible"].figure.legends[0].texts][1:] == [
            "90 % of the whole accuracy"
        ]


def test_range_of_frequencies_is_drawn_in_hz(speech):
    ranges, bins = speech["frequency"].figure.axes
    assert lines(ranges)[:2] == [[[0.5, 4], [1, 5]], [[0.5, 3000], [1, 3000]]]
    assert lines(bins)[0] == [[0.5, 3], [1, 4]]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_up_to_six_models_differ_in_color_in_dashes_and_in_marker(count):
    styles = [look for _, look in with_looks([sees(str(number)) for number in range(count)])]
    assert len({look.color for look in styles}) == count
    assert len({look.marker for look in styles}) == count
    assert len({look.dashes for look in styles}) == count


def test_six_long_names_stay_within_the_figure():
    for draw, model in ((picture_drawing.draw_depth, sees), (speech_drawing.draw_depth, hears)):
        figure = draw([model(f"{LONG}.{number}") for number in range(6)])
        figure.draw_without_rendering()
        box, legend = figure.bbox, figure.legends[0].get_window_extent()
        assert box.x0 <= legend.x0 and legend.x1 <= box.x1 and legend.y1 <= box.y1
        assert all(panel.get_window_extent().y1 < legend.y0 for panel in figure.axes)


def test_what_is_not_known_or_has_no_end_is_survived():
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

    for drawn, result, kept in (
        (figures_of_pictures, sees("vit", attention=False), "side_90"),
        (figures_of_speech, hears("recognizer", attention=False), "ahead_share"),
    ):
        layers = [broken(layer, kept) for layer in result.main.layers]
        result.states = [State(state.trained, state.size, layers) for state in result.states]
        result.heads = heads(2, hears=result.subject.hears)
        result.heads.relative_distance[:] = nan
        for picture in drawn([result]).values():
            assert save(picture.figure).startswith(b"\x89PNG")


def test_numbers_without_an_end_leave_gaps():
    gap = [nan, nan, nan]
    found = finite([Estimate(5, 3, 7), None, Estimate(5, 3, inf), Estimate(nan, 3, 7)])
    assert numpy.array_equal(found, [[5, 3, 7], gap, gap, gap], equal_nan=True)


def test_an_unknown_theoretical_field_is_not_drawn():
    result = sees("vit", reach=(2,))
    unknown = [
        replace(layer, fields=replace(layer.fields, cumulative=replace(layer.fields.cumulative, outside=0.5)))
        for layer in result.main.layers
    ]
    known = picture_drawing.draw_fields([result])
    result.states = [State(True, SIDE, unknown)]
    hidden = picture_drawing.draw_fields([result])
    for figure, squares in ((known, 2), (hidden, 1)):
        assert [len(axes.patches) for axes in figure.axes if axes.images] == [squares] * 3
    assert lines(picture_drawing.draw_depth([result]).axes[0])[-1] == []


def test_long_names_are_cut_from_the_front_and_broken_behind_signs():
    assert shortened("body.network.stages.3.blocks.2", 12) == "…3.blocks.2"
    assert shortened("layer4.1", 12) == "layer4.1"
    assert shortened("a_name_of_one_part", 5) == "a_name_of_one_part"
    assert wrapped("timm:vit_small_patch16", 10) == "timm:vit_\nsmall_\npatch16"
    assert wrapped("vit-cifar10", 16) == "vit-cifar10"
