"""The autograd graph between two tensors: its order, and the additions with a residual shortcut.

Autograd records what the network computed, however it is written: residual additions and functions that are not
modules are part of the graph.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from graphlib import TopologicalSorter

import torch
from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

Edges = Callable[[Node], list[Node | None]]


def node_of(tensor: Tensor) -> Node:
    """The node that computed the tensor; for a leaf, the node that accumulates its gradient."""
    return get_gradient_edge(tensor).node


def inputs_of(node: Node) -> list[Node | None]:
    """The nodes that computed the inputs of a node."""
    return [parent for parent, _ in node.next_functions]


def backward_order(output: Node, source: Node, edges: Edges = inputs_of) -> list[Node]:
    """The nodes on paths from `output` back to `source` in topological order: each node after all of its users.

    The list is empty if no path leads there. `edges` returns the inputs of a node, for example to step over a module.
    """
    on_path = nodes_between(output, source, edges)
    users = TopologicalSorter({node: () for node in on_path})
    for node in on_path - {source}:
        for parent in on_path.intersection(edges(node)):
            users.add(parent, node)
    return list(users.static_order())


def nodes_between(output: Node, source: Node, edges: Edges = inputs_of) -> set[Node]:
    """All nodes through which `output` depends on `source`, including both."""
    users = defaultdict(list)

    def parents_of(node: Node) -> list[Node | None]:
        parents = [] if node is source else edges(node)
        for parent in parents:
            users[parent].append(node)
        return parents

    return reachable(source, lambda node: users[node]) if source in reachable(output, parents_of) else set()


def reachable(start: Node, edges: Edges) -> set[Node]:
    """A node, and all nodes that its edges and theirs lead to."""
    reached, open_nodes = {start}, [start]
    while open_nodes:
        found = {*edges(open_nodes.pop())} - reached - {None}
        reached |= found
        open_nodes += found
    return reached


def residual_shortcuts(output: Tensor, source: Tensor, edges: Edges = inputs_of) -> list[tuple[Node, int]]:
    """Identity shortcuts: additions of a tensor x and a function of the same x.

    In x + f(x), the shortcut is the input that the other input depends on. A shortcut with a layer of its own (the
    1×1 convolution of a ResNet) does not count.

    Returns for each addition its node, and which of its inputs is the shortcut. `edges` is as in `backward_order`; it
    steps over recurrent layers, whose gates add a state and a function of it.
    """
    start, shortcuts = node_of(source), []
    for node in backward_order(node_of(output), start, edges):
        parents = inputs_of(node) if node.name().startswith("AddBackward") else []
        if len(parents) == 2 and None not in parents and node is not start:
            for slot, (shortcut, branch) in enumerate((tuple(parents), tuple(reversed(parents)))):
                if (
                    shortcut is not branch
                    and nodes_between(branch, shortcut, edges)
                    and nodes_between(shortcut, start, edges)
                ):
                    shortcuts.append((node, slot))
    return shortcuts


@contextmanager
def cut_shortcuts(shortcuts: list[tuple[Node, int]]) -> Iterator[None]:
    """A context in which no gradient flows along the given shortcuts; see `residual_shortcuts`."""

    def cut(slot: int, gradients: tuple[Tensor, ...], _: tuple) -> tuple[Tensor, ...]:
        return (*gradients[:slot], torch.zeros_like(gradients[slot]), *gradients[slot + 1 :])

    with ExitStack() as hooks:
        for node, slot in shortcuts:
            hooks.enter_context(node.register_hook(partial(cut, slot)))
        yield
