"""The figures of the report: what is drawn where, in which unit, and what is left out."""

import io
from dataclasses import replace
from functools import partial
from math import inf, nan

import numpy
import pytest
import torch
from matplotlib.colors import LogNorm
from matplotlib.text import Text

from vitspeech.metrics.intervals import Estimate
from vitspeech.receptive.fields.layers import evenly_spaced
from vitspeech.receptive.occlusion import VisibleAccuracy
from vitspeech.receptive.report.curves import draw_past_and_ahead, draw_sides
from vitspeech.receptive.report.layout import STATES, WIDTH
from vitspeech.receptive.report.maps import COLUMNS, draw_image_fields, half_extent
from vitspeech.receptive.report.page import draw_figures

PICTURES = {"fields", "energy", "depth", "blocks", "states", "heads", "visible"}
LONG = "timm:vit_small_patch16_224.augreg_in21k_ft_in1k"
BOTH = pytest.mark.parametrize("which", ["images", "speech"])
figures_of = partial(draw_figures, sample=None)  # of results without examples


def without_examples(results):
    return [replace(result, examples=[]) for result in results]


@pytest.fixture(scope="module")
def results(images_compared, speech_compared):
    """Results by kind, without examples."""
    return {"images": without_examples(images_compared[0]), "speech": without_examples(speech_compared[0])}


@pytest.fixture(scope="module")
def figures(results):
    return {which: figures_of(some) for which, some in results.items()}


def images(figures):
    return [image for axes in figures["fields"].figure.axes for image in axes.images]


def lines(axes, dashes=None):
    """The points of each line, or of each line with those dashes."""
    return [line.get_xydata().tolist() for line in axes.lines if dashes in (None, line.get_linestyle())]


def values(state, number):
    """Depth and value of a number in each layer."""
    return pytest.approx(numpy.array([[layer.depth, layer.cumulative[number].value] for layer in state.layers]))


def legend(figure):
    return [text.get_text() for text in figure.legends[0].texts]


def test_each_measurement_has_a_figure_with_texts_that_name_every_model_and_numbers(results, figures, images_compared):
    assert set(figures["images"]) == PICTURES and set(figures["speech"]) == PICTURES | {"frequency"}
    assert set(draw_figures(*images_compared)) == PICTURES | {"examples"}
    without = [replace(result, heads=None, visible=None) for result in results["images"]]
    assert set(figures_of(without)) == PICTURES - {"heads", "visible"}
    for which, some in figures.items():
        for figure in some.values():
            assert figure.caption.endswith(".") and "{" not in figure.title + figure.caption + figure.alt
            assert len(figure.title) < 50 and figure.figure.get_figwidth() == WIDTH
            assert all(result.subject.name in figure.alt for result in results[which])
            assert any(map(str.isdigit, figure.alt))
    names = ["small", "large"]
    named = [replace(one, subject=replace(one.subject, name=name)) for one, name in zip(without, names, strict=True)]
    sides = {one.subject.name: one.main.layers[-1].cumulative["side_90"].value for one in named}
    alt = figures_of(named)["fields"].alt
    assert sorted(names, key=alt.rindex) == sorted(names, key=sides.get, reverse=True)


@BOTH
def test_text_is_at_least_7_px_high_in_a_figure_scaled_to_400_px(which, figures):
    for figure in figures[which].values():
        figure.figure.set_layout_engine("none")
        figure.figure.draw_without_rendering()
        texts = [text for text in figure.figure.findobj(Text) if text.get_text() and text.get_visible()]
        assert texts and min(text.get_fontsize() for text in texts) * 400 / (72 * WIDTH) >= 7


def test_residual_branches_that_are_zero_at_initialization_are_noted_beside_untrained_states(results, figures):
    vit, resnet = results["images"]
    for name in ("energy", "depth", "states"):
        assert f"* timm:resnet10t, untrained: {resnet.main.zero_init}." in figures["images"][name].caption
    for name in ("energy", "depth"):
        assert "untrained*" in legend(figures["images"][name].figure)
    alone = figures_of([vit])
    assert not any("*" in figure.caption for figure in alone.values())
    assert "*" not in figures["images"]["heads"].caption  # a ResNet has none
    assert "untrained" in legend(alone["depth"].figure)


@BOTH
def test_all_panels_share_one_color_scale_and_show_the_mean_field_at_its_offsets(which, results, figures):
    panels = images(figures[which])
    layers = [layer for result in results[which] for layer in evenly_spaced(result.main.layers, COLUMNS)]
    largest = max(float(layer.fields.cumulative.mean.max()) for layer in layers)
    assert len({id(panel.norm) for panel in panels}) == 1 and isinstance(panels[0].norm, LogNorm)
    assert (panels[0].norm.vmin, panels[0].norm.vmax) == pytest.approx((largest / 1e5, largest))
    for panel, layer in zip(panels, layers, strict=True):
        field, shown = layer.fields.cumulative, panel.get_array()
        assert shown.count() == int((field.mean > 0).sum())  # the rest is gray
        row, column = divmod(int(field.mean.argmax()), field.mean.shape[1])
        left, right, bottom, top = panel.get_extent()
        if which == "speech":  # time on x, frequency on y
            assert panel.origin == "lower" and shown.T[row, column] == field.mean.max()
            across, expected = row, layer.cell * float(field.rows[row])
        else:
            assert shown[row, column] == field.mean.max()
            down = top + (row + 0.5) * (bottom - top) / shown.shape[0]
            across, expected = column, float(field.columns[column])
            assert down == pytest.approx(float(field.rows[row]))
        assert left + (across + 0.5) * (right - left) / shown.shape[1] == pytest.approx(expected, abs=1e-9)


def test_theoretical_squares_are_drawn_if_they_are_known_and_fit(results):
    vit = results["images"][0]
    first, *_, last = [axes.patches for axes in draw_image_fields([vit]).axes if axes.images]
    side = vit.main.layers[0].cumulative["side_90"].value
    stem = sum(vit.main.layers[0].theoretical) + 1
    assert [(square.get_x(), square.get_height()) for square in first] == [(-side / 2, side), (-stem / 2, stem)]
    assert len(last) == 1  # attention has no limit
    unknown = replace(vit.main.layers[0].fields, cumulative=replace(vit.main.layers[0].fields.cumulative, outside=0.5))
    layers = [replace(vit.main.layers[0], fields=unknown)]
    hidden = replace(vit, states=[replace(vit.main, layers=layers)])
    assert [len(axes.patches) for axes in draw_image_fields([hidden]).axes if axes.images] == [1]
    assert lines(draw_sides([hidden]).axes[0])[-1] == []


def test_a_panel_ends_where_the_energy_has_no_color(results):
    field = results["images"][0].main.layers[-1].fields.cumulative
    faint = torch.where(torch.arange(field.mean.numel()) == field.mean.argmax(), 1.0, 1e-7).view(1, *field.mean.shape)
    whole, colored = (half_extent(replace(field, energy=faint), LogNorm(low, 1), axes=(0, 1)) for low in (1e-8, 1e-5))
    assert colored < 3 < 10 < whole


def test_axes_name_two_image_sizes_only_if_there_are_two(results, figures):
    vit = results["images"][0]
    labels = [axes.get_ylabel() for axes in draw_sides([replace(vit, states=[vit.main])]).axes]
    assert labels == ["side (px)", "", "side / image side", ""]
    assert figures["images"]["depth"].figure.axes[2].get_ylabel() == "side / image side\ntwo image sizes"


def test_energy_grows_to_1_and_is_90_percent_within_the_radius_of_the_table(results, figures):
    (axes,) = figures["images"]["energy"].figure.axes
    curves = [numpy.array(line) for line in lines(axes) if len(line) > 2]
    vit, resnet = results["images"]
    assert len(curves) == 3  # untrained and trained, and what has no weights
    for curve, state in zip(curves, (vit.untrained, vit.main, resnet.main), strict=True):
        assert curve[-1, 1] == pytest.approx(1, abs=1e-5) and (numpy.diff(curve[:, 1]) >= 0).all()
        radius = state.layers[-1].cumulative["radius_90"].value
        assert numpy.interp(radius, curve[:, 0], curve[:, 1]) == pytest.approx(0.9, abs=1e-4)


def test_states_differ_in_dashes_and_theoretical_sides_are_drawn(results, figures):
    top_left, top_right, _, bottom_right = figures["images"]["depth"].figure.axes
    vit = results["images"][0]
    assert numpy.array(lines(top_right, STATES["trained"])[0]) == values(vit.main, "side_90")
    assert numpy.array(lines(top_right, STATES["untrained"])[0]) == values(vit.untrained, "side_90")
    assert top_left.get_yticklabels()[-1].get_text() == "∞"
    # The measured number, then that of the uniform field, then the theoretical field.
    limits = next(line for line in lines(top_right) if line[-1][1] == top_right.get_yticks()[-1])
    assert limits[0][1] == sum(vit.main.layers[0].theoretical) + 1
    other = numpy.array(lines(bottom_right, STATES["other size"])[0]) * [1, 48]
    assert other == values(vit.larger, "side_90")
    assert len(set(STATES.values())) == 3


@BOTH
def test_every_line_of_the_depth_figures_is_within_its_axes(which, figures):
    for axes in figures[which]["depth"].figure.axes:
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        curves = [numpy.array(line) for line in lines(axes)]
        assert len(curves) >= 2
        for curve in curves:
            assert (left <= curve[:, 0]).all() and (curve[:, 0] <= right).all()
            assert (bottom < curve[:, 1]).all() and (curve[:, 1] < top).all()


def test_past_is_below_zero_and_look_ahead_above(results, figures):
    axes = figures["speech"]["depth"].figure.axes
    assert [panel.get_title().split(",")[0] for panel in axes] == list(STATES)
    (result,) = results["speech"]
    # After the line at 0: measured, uniform and theoretical, for the past and then for the look-ahead.
    past, _, past_limit, ahead, _, ahead_limit = (numpy.array(line) for line in lines(axes[0])[1:7])
    assert past * [1, -1] == values(result.main, "back_90") and ahead == values(result.main, "ahead_90")
    theoretical = [layer.theoretical for layer in result.main.layers]
    assert [(-back, there) for back, there in zip(past_limit[:, 1], ahead_limit[:, 1], strict=True)] == theoretical
    assert axes[2].get_title().endswith("1.5 s")


def test_states_are_drawn_in_px_and_as_a_fraction_of_the_image_side(results, figures):
    lengths, fractions = figures["images"]["states"].figure.axes
    rows = ["untrained, 32 px", "trained, 32 px", "trained, 48 px", "untrained*, 32 px", "untrained*, 48 px"]
    assert [label.get_text() for label in lengths.get_yticklabels()] == rows
    vit = results["images"][0]
    for number, state in enumerate((vit.untrained, vit.main, vit.larger)):
        numbers = state.layers[-1].cumulative
        ends = [numbers[name].value for name in ("radius_50", "radius_90")]
        for axes, scale in ((lengths, 1), (fractions, 1 / state.size)):
            joined = lines(axes)[5 * number]  # before the interval and the point of each number
            assert [x for x, _ in joined] == pytest.approx([scale * end for end in ends])


def test_each_head_is_a_point(results, figures):
    heads = results["images"][0].heads
    (spread,) = figures["images"]["heads"].figure.axes[0].collections
    expected = torch.stack((heads.relative_distance, heads.entropy), -1).flatten(0, 1)
    assert spread.get_offsets().data == pytest.approx(expected.numpy())
    assert spread.get_array().tolist() == [0.5, 0.5, 1, 1]
    heads = results["speech"][0].heads
    sides = next(axes for axes in figures["speech"]["heads"].figure.axes if "past" in axes.get_xlabel())
    expected = torch.stack((heads.look_back, heads.look_ahead), -1).flatten(0, 1)
    assert sides.collections[0].get_offsets().data == pytest.approx(expected.numpy())


@pytest.mark.parametrize("which, cell", [("images", 1), ("speech", 10)])
def test_visible_ends_with_the_complete_input_and_marks_90_percent_of_its_accuracy(which, cell, results):
    # 90 % of the full accuracy, 0.72, is halfway between the second and the third radius.
    correct = torch.arange(100) < torch.tensor([[10], [68], [76], [80]])
    found = VisibleAccuracy([0.0, 2.0, 4.0, 20.0], dict.fromkeys(("mean", "blur", "shuffle"), correct))
    figure = figures_of([replace(results[which][0], visible=found)])["visible"].figure
    panels = figure.axes
    assert len(panels) == 3 and all("outside" in axes.get_title() for axes in panels)
    curve, kept = lines(panels[0])
    assert curve[:3] == [[0, 0.1], [2 * cell, 0.68], [4 * cell, 0.76]] and curve[3][1] == 0.8
    assert curve[3][0] > 4 * cell
    assert panels[0].get_xticklabels()[-1].get_text() == "all" and panels[0].get_xticks()[-1] == curve[3][0]
    assert kept[0] == pytest.approx([3 * cell, 0.72])
    assert legend(figure)[1:] == ["90 % of the full accuracy"]


@BOTH
def test_agreement_is_not_called_accuracy(which, results):
    labeled = results[which][0]
    foreign = replace(labeled, visible=replace(labeled.visible, agreement=True))
    alone = figures_of([foreign])["visible"]
    assert alone.title == "Agreement within a window" and "agreement" in alone.alt
    shown = [text.get_text() for text in alone.figure.findobj(Text)]
    assert not any("accuracy" in text.lower() for text in (alone.title, alone.alt, *shown))
    assert figures_of([labeled, foreign])["visible"].figure.axes[0].get_ylabel() == "accuracy or agreement"


def test_six_long_names_stay_within_the_figure(results):
    for draw, which in ((draw_sides, "images"), (draw_past_and_ahead, "speech")):
        one = results[which][0]
        figure = draw([replace(one, subject=replace(one.subject, name=f"{LONG}.{number}")) for number in range(6)])
        figure.draw_without_rendering()
        box, names = figure.bbox, figure.legends[0].get_window_extent()
        assert box.x0 <= names.x0 and names.x1 <= box.x1 and names.y1 <= box.y1
        assert all(panel.get_window_extent().y1 < names.y0 for panel in figure.axes)


@pytest.mark.parametrize("which, kept", [("images", "side_90"), ("speech", "ahead_share")])
def test_figures_are_drawn_if_numbers_are_unknown_or_not_finite(which, kept, results):
    def broken(layer):
        fields = replace(layer.fields, cumulative=replace(layer.fields.cumulative, outside=0.5))
        numbers = {name: value if name == kept else Estimate(inf, inf, inf) for name, value in layer.cumulative.items()}
        block = dict.fromkeys(layer.cumulative, Estimate(nan, nan, nan)) if layer.depth < 1 else None
        return replace(layer, fields=fields, cumulative=numbers, block=block, frequency=None)

    result = results[which][0]
    states = [replace(state, layers=[broken(layer) for layer in state.layers]) for state in result.states]
    heads = replace(result.heads, relative_distance=result.heads.relative_distance * nan)
    for figure in figures_of([replace(result, states=states, heads=heads)]).values():
        figure.figure.set_layout_engine("none")  # takes most of the time
        png = io.BytesIO()
        figure.figure.savefig(png, format="png", dpi=30)
        assert png.getvalue().startswith(b"\x89PNG")
