"""The autograd graph as data: orders and skips of graphs drawn by hand, and gradients without the skipping paths.

Shapes: B = 2 batch, C = 3 channels, R = 5 rows, W = 7 columns.
"""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech.receptive.fields.graph import backward_order, cut_shortcuts, node_of, residual_shortcuts


def leaf(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, 5, 7, generator=generator, dtype=torch.float64, requires_grad=True)


def convolution(seed, kernel=3):
    torch.manual_seed(seed)
    return nn.Conv2d(3, 3, kernel, padding=kernel // 2).double()


def gradient(output, source):
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(9), dtype=output.dtype)
    return torch.autograd.grad(output, source, weights, retain_graph=True)[0]


def without_skips(output, source):
    with cut_shortcuts(residual_shortcuts(output, source)):
        return gradient(output, source)


F, G = convolution(1), convolution(2)  # linear: their gradients are the same at every input


def test_nodes_come_after_everything_that_they_were_an_input_of():
    x = leaf()
    a = x.sin()
    b = a.cos()
    c = a * b  # a is an input of b and of c: it comes after both
    y = c.exp() + x.tanh()
    names = [node.name() for node in backward_order(node_of(y), node_of(x))]
    chain = ["AddBackward0", "ExpBackward0", "MulBackward0", "CosBackward0", "SinBackward0"]
    places = [names.index(name) for name in chain]
    assert places == sorted(places) and names[-1] == "torch::autograd::AccumulateGrad"
    assert {*names} == {*chain, "TanhBackward0", names[-1]} and len(names) == 7


def test_a_graph_of_many_paths_is_read_in_linear_time():
    x = leaf()
    y = x
    for _ in range(200):  # 2^200 paths
        y = y.sin() + y.cos()
    assert len(backward_order(node_of(y), node_of(x))) == 1 + 3 * 200


def test_cut_gradient_of_a_residual_is_its_branchs_alone():
    x = leaf()
    y = x + F(x)
    assert [place for _, place in residual_shortcuts(y, x)] == [0]
    assert_close(without_skips(y, x), gradient(F(x), x))
    swapped = F(x) + x
    assert [place for _, place in residual_shortcuts(swapped, x)] == [1]
    assert_close(without_skips(swapped, x), gradient(F(x), x))


def test_gradient_is_whole_again_afterwards_also_after_an_error():
    x = leaf()
    y = x + F(x)
    whole = gradient(y, x)
    assert not torch.allclose(without_skips(y, x), whole)
    assert_close(gradient(y, x), whole)
    with pytest.raises(KeyError), cut_shortcuts(residual_shortcuts(y, x)):
        raise KeyError
    assert_close(gradient(y, x), whole)


def test_nested_residuals_are_cut_within_and_without():
    x = leaf()

    def inner(z):
        return z + G(z)

    y = x + F(inner(x))
    assert len(residual_shortcuts(y, x)) == 2
    assert_close(without_skips(y, x), gradient(F(G(x)), x))


def test_residuals_after_one_another_leave_what_passes_every_branch():
    x = leaf()
    middle = x + F(x)
    y = middle + G(middle)
    assert len(residual_shortcuts(y, x)) == 2
    assert_close(without_skips(y, x), gradient(G(F(x)), x))


def test_two_branches_beside_each_other_are_both_kept():
    x = leaf()
    for y in (x + F(x) + G(x), F(x) + G(x) + x, F(x) + (x + G(x))):
        assert len(residual_shortcuts(y, x)) == 1
        assert_close(without_skips(y, x), gradient(F(x) + G(x), x))


def test_a_shortcut_with_a_convolution_is_not_a_skip():
    x, shortcut = leaf(), convolution(3, kernel=1)
    assert residual_shortcuts(shortcut(x) + F(x), x) == []
    assert residual_shortcuts(x.exp() + F(x), x) == []


def test_sums_without_a_skip_have_no_shortcuts():
    x, bias = leaf(), leaf(1)
    assert residual_shortcuts(x + x, x) == []  # the same twice
    assert residual_shortcuts(F(x) + bias, x) == []
    assert residual_shortcuts(bias + F(bias) + x, x) == []
    assert residual_shortcuts(x + 1, x) == []
    assert residual_shortcuts(x * F(x), x) == []


def test_additions_in_place_are_seen():
    x = leaf()
    y = F(x)
    y += x
    assert_close(without_skips(y, x), gradient(F(x), x))
    changed = x.clone()
    changed += changed.sigmoid()
    assert_close(without_skips(changed, x), gradient(x.sigmoid(), x))
