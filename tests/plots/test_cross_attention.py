"""The picture of a decoder's cross-attention: which maps it has, and that they are the network's."""

import torch

from vitspeech.models import Seq2Seq
from vitspeech.plots.cross_attention import Alignment, align_symbols, draw_alignments

SYMBOLS, LABELS = ["a", "$b", "c", "+"], ["x", "y$", "z"]


def seq2seq(**decoder):
    torch.manual_seed(0)
    return Seq2Seq(3, 4, 12, {"depth": 1, "heads": 3}, decoder={"depth": 2, "heads": 3} | decoder).eval()


def test_an_alignment_is_the_networks_cross_attention_of_one_sequence():
    network, inputs, units = seq2seq(), [3, 0, 1, 2], [1, 2]
    found = align_symbols(network, SYMBOLS, LABELS, inputs, units)
    assert found.inputs == ["+", "a", "$b", "c"] and found.outputs == ["y$", "z"]
    encoded, padding = network.encode(torch.tensor([inputs]))
    expected = network.cross_attention(encoded, padding, torch.tensor([units]))[:, 0]
    assert found.weights.shape == (2, 3, 3, 4) and torch.equal(found.weights, expected)


def test_an_output_without_symbols_has_the_row_of_the_end():
    assert align_symbols(seq2seq(), SYMBOLS, LABELS, [3], []).weights.shape == (2, 3, 1, 1)


def test_each_block_of_each_sequence_has_a_map_of_each_head_and_their_mean(figures, tmp_path):
    drawn = [align_symbols(seq2seq(), SYMBOLS, LABELS, inputs, [0, 1, 2]) for inputs in ([0, 1, 2, 3], [3, 1])]
    draw_alignments(drawn, tmp_path / "a.png")
    maps = [axes for axes in figures[0].axes if axes.images]
    assert len(maps) == 2 * 2 * 4 and (tmp_path / "a.png").stat().st_size > 1000
    for row, (alignment, block) in enumerate([(drawn[0], 0), (drawn[0], 1), (drawn[1], 0), (drawn[1], 1)]):
        weights = alignment.weights[block]
        for axes, values in zip(maps[4 * row : 4 * row + 4], [weights.mean(0), *weights], strict=True):
            assert torch.equal(torch.tensor(axes.images[0].get_array()), values)
        names = [label.get_text() for label in maps[4 * row].get_yticklabels()]
        assert names == ["x", r"y\$", "z", "end"]
    assert [axes.get_title() for axes in maps[:4]] == ["mean over heads", "head 1", "head 2", "head 3"]


def test_a_single_head_has_one_map(figures, tmp_path):
    draw_alignments([Alignment(["a"] * 100, ["x"], torch.full((1, 1, 2, 100), 0.01))], tmp_path / "a.pdf")
    (axes,) = [axes for axes in figures[0].axes if axes.images]
    assert len(axes.get_xticks()) == 34 and axes.get_title() == ""
