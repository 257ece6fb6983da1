"""The figures of models that see pictures, and what is said under each; lengths are px of the input."""

from collections.abc import Sequence

from vitspeech.receptive.comparison import Result
from vitspeech.receptive.depth_figure import draw_blocks
from vitspeech.receptive.figures import Drawn
from vitspeech.receptive.picture_drawing import draw_depth, draw_energy, draw_fields, draw_heads
from vitspeech.receptive.state_figure import Mark, draw_states
from vitspeech.receptive.visible_figure import draw_visible


def figures_of_pictures(results: Sequence[Result]) -> dict[str, Drawn]:
    """Every figure that has something to show, by the name of its file without ending.

    Args:
        results: From `compare`, of models that see.
    """
    drawn = {
        "fields": Drawn(
            draw_fields(results),
            "Effective fields",
            "Share of the energy of the gradient that each pixel has, around the unit in the middle; axes in px from "
            "the unit's centre, one logarithmic colour scale for all panels, grey where there is nothing. Columns are "
            "layers of each model by their depth. Blue line: the theoretical field, where it fits into the panel. "
            "Dashed: the square that holds 90 % of the energy.",
        ),
        "energy": Drawn(
            draw_energy(results),
            "Energy within a radius, last layer",
            "Share of the energy within a radius in px of the unit's centre. A line that rises further left sees less "
            "far. The thin lines across are at 50 % and 90 %.",
        ),
        "depth": Drawn(
            draw_depth(results),
            "Width against depth",
            "Side of the centred square that holds 50 % (left) and 90 % (right) of the energy, against the layer's "
            "depth, with its 95 % interval over inputs. Above in px, before and after training; below as a share of "
            "the picture's side, at two sizes of the input. Thin lines without marks are the sides of the theoretical "
            "fields; those that leave a panel go on above it, or have no limit.",
        ),
        "blocks": Drawn(
            draw_blocks(results, unit="px"),
            "Mixing distance of single blocks",
            "How far one block reaches, from the layer measured before it: four standard deviations of its field in "
            "px, against depth. Left as the block is, right with its skipping paths cut; a block without any, or "
            "whose other paths pass on nothing, is on the left alone. Where "
            "right is far above left, the block mostly passes on what it gets.",
        ),
        "states": Drawn(
            draw_states(
                results,
                [Mark("radius_50", 1, False), Mark("radius_90", 1, True)],
                unit="px",
                per_size=1,
                labels={False: "radius of 50 % of the energy", True: "radius of 90 % of the energy"},
            ),
            "Training and size of the input, last layer",
            "Radius of the discs that hold 50 % (open) and 90 % (filled) of the energy, with 95 % intervals over "
            "inputs: left in px, right as a share of the picture's side. A grey line is the state that the other "
            "figures are about. If two models change places from one line to the next, or from left to right, the "
            "conclusion depends on training or on the size.",
        ),
    }
    if any(result.heads is not None for result in results):
        drawn["heads"] = Drawn(
            draw_heads(results),
            "Attention heads",
            "Each point is a head. Left: mean distance of what it attends to, as a multiple of that of uniform "
            "attention (1), and entropy as a share of the largest possible; brighter is deeper. Middle: the distance "
            "in px against depth. Right: how well one kernel, the same at every place, explains the head (1: a "
            "convolution). Lines are means over the heads of a layer.",
        )
    if any(result.visible is not None for result in results):
        drawn["visible"] = Drawn(
            draw_visible(results, unit="px", window="half side of the window"),
            "Accuracy against what is visible",
            "Accuracy when only a centred square window of the picture is visible, against half its side in px, with "
            "95 % intervals; the last point is the whole picture. The panels differ in what stands outside. A tick "
            "marks from where on 90 % of the accuracy on whole pictures is kept. A model whose labels are not known "
            "is compared with its own answers to whole pictures.",
        )
    return drawn
