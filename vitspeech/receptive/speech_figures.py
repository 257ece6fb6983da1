"""The figures of models that hear speech, and what is said under each; lengths are ms."""

from collections.abc import Sequence

from vitspeech.receptive.comparison import Result
from vitspeech.receptive.depth_figure import draw_blocks
from vitspeech.receptive.figures import Drawn
from vitspeech.receptive.speech_drawing import draw_depth, draw_energy, draw_fields, draw_frequency, draw_heads
from vitspeech.receptive.state_figure import Mark, draw_states
from vitspeech.receptive.visible_figure import draw_visible

MARKS = (Mark("back_90", -1, True), Mark("back_50", -1, False), Mark("ahead_50", 1, False), Mark("ahead_90", 1, True))


def figures_of_speech(results: Sequence[Result]) -> dict[str, Drawn]:
    """Every figure that has something to show, by the name of its file without ending.

    Args:
        results: From `compare`, of models that hear.
    """
    drawn = {
        "fields": Drawn(
            draw_fields(results),
            "Effective fields",
            "Share of the energy of the gradient that each log-mel frame (across, in ms from the unit's moment; left "
            "is the past) and each mel bin (upwards, in Hz) has. One logarithmic colour scale for all panels, grey "
            "where there is nothing. Columns are layers of each model by their depth. Blue lines: where the "
            "theoretical window begins and ends, if that is within the panel.",
        ),
        "energy": Drawn(
            draw_energy(results),
            "Energy over time, last layer",
            "Share of the energy per 10 ms, on a logarithmic axis, against the time from the unit's moment in ms: the "
            "past on the left, the look-ahead on the right. Vertical lines: the theoretical window, where it ends "
            "within the panel.",
        ),
        "depth": Drawn(
            draw_depth(results),
            "Past and look-ahead against depth",
            "Within how many ms of the unit's moment 90 % of the energy of its past lies (below zero), and 90 % of "
            "that of its look-ahead (above), against the layer's depth, with 95 % intervals over inputs. Thin lines "
            "without marks are the theoretical reach; those that leave a panel go on, or have no limit.",
        ),
        "blocks": Drawn(
            draw_blocks(results, unit="ms"),
            "Mixing distance of single blocks",
            "How far one block reaches, from the layer measured before it: four standard deviations of its field in "
            "ms, against depth. Left as the block is, right with its skipping paths cut; a block without any, or "
            "whose other paths pass on nothing, is on the left alone. Where "
            "right is far above left, the block mostly passes on what it gets.",
        ),
        "states": Drawn(
            draw_states(
                results,
                MARKS,
                unit="ms",
                per_size=1000,
                labels={False: "50 % of the energy on that side", True: "90 % of the energy on that side"},
            ),
            "Training and length of the clip, last layer",
            "Within which time from the unit's moment 50 % (open) and 90 % (filled) of the energy of the past (left "
            "of zero) and of the look-ahead (right) lie, with 95 % intervals over inputs: in ms, and as a share of "
            "the clip. A grey line is the state that the other figures are about. If two models change places from "
            "one line to the next, the conclusion depends on training or on the length.",
        ),
        "frequency": Drawn(
            draw_frequency(results),
            "Frequencies",
            "Left: the frequencies in Hz below and above which 5 % of the energy lies; 90 % lies between a model's two "
            "lines. Right: over how many mel bins the energy is spread as if evenly. Both against the layer's depth, "
            "with 95 % intervals over inputs.",
        ),
    }
    if any(result.heads is not None for result in results):
        drawn["heads"] = Drawn(
            draw_heads(results),
            "Attention heads",
            "Each point is a head. Brighter is deeper in the two panels on the left: mean distance of what a head "
            "attends to, as a multiple of that of uniform attention (1), with its entropy as a share of the largest "
            "possible; and the parts of the mean distance that lie in the past and in the look-ahead, in ms. The "
            "other panels show the distance in ms, how well one kernel explains the head (1: a convolution), how near "
            "it stays to its own moment (1: nowhere else), and the entropy, against depth; lines are means over the "
            "heads of a layer.",
        )
    if any(result.visible is not None for result in results):
        drawn["visible"] = Drawn(
            draw_visible(results, unit="ms", window="radius around the word's middle"),
            "Accuracy against what is audible",
            "Accuracy when only a stretch around the middle of the word is left, against how far it reaches to each "
            "side in ms, with 95 % intervals; the last point is the whole clip. The panels differ in what stands "
            "outside. A tick marks from where on 90 % of the accuracy on whole clips is kept. A model whose labels "
            "are not known is compared with its own answers to whole clips.",
        )
    return drawn
