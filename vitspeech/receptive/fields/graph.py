"""The autograd graph between two tensors, read as data: in which order it runs backwards, and where paths are skipped.

What autograd has recorded is what the network did, whatever it is written with: residual additions and functions that
are no modules are in it, too.
"""

from collections import Counter
from collections.abc import Callable

from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

Edges = Callable[[Node], list[Node | None]]


def node_of(tensor: Tensor) -> Node:
    """The node whose output the tensor is; of a leaf the node that would gather its gradient."""
    return get_gradient_edge(tensor).node


def inputs_of(node: Node) -> list[Node | None]:
    """The nodes whose outputs a node took."""
    return [taken for taken, _ in node.next_functions]


def backwards(output: Node, source: Node, edges: Edges = inputs_of) -> list[Node]:
    """The nodes on paths from `output` back to `source`, each after everything that it was an input of.

    Args:
        output: Where the paths begin.
        source: Where they end; empty if none leads there.
        edges: What a node took, where some of it is to be read otherwise.
    """
    on_path = leading_to(output, source, edges)
    if output not in on_path:
        return []
    uses = Counter(taken for node in on_path for taken in edges(node) if taken in on_path and node is not source)
    order, ready = [], [output]
    while ready:
        node = ready.pop()
        order.append(node)
        for taken in edges(node) if node is not source else []:
            if taken in on_path:
                uses[taken] -= 1
                if not uses[taken]:
                    ready.append(taken)
    return order


def leading_to(output: Node, source: Node, edges: Edges = inputs_of) -> set[Node]:
    """All nodes between the two, both included, through which `output` depends on `source`."""
    users: dict[Node, list[Node]] = {}
    seen, open_nodes = {output}, [output]
    while open_nodes:
        node = open_nodes.pop()
        if node is source:
            continue
        for taken in edges(node):
            if taken is None:
                continue
            users.setdefault(taken, []).append(node)
            if taken not in seen:
                seen.add(taken)
                open_nodes.append(taken)
    if source not in seen:
        return set()
    found, open_nodes = {source}, [source]
    while open_nodes:
        for user in users.get(open_nodes.pop(), []):
            if user not in found:
                found.add(user)
                open_nodes.append(user)
    return found


def skips(output: Tensor, source: Tensor) -> list[tuple[Node, int]]:
    """Where paths skip something: additions of a tensor and of what has become of the same tensor.

    x + f(x) adds x itself; of the addition's two inputs it is the one that the other depends on. A shortcut through a
    layer of its own (the 1×1 convolution of a ResNet) skips nothing.

    Returns:
        Each addition's node, and which of its inputs is the skipping one.
    """
    start, found = node_of(source), []
    for node in backwards(node_of(output), start):
        taken = inputs_of(node) if node.name().startswith("AddBackward") else []
        if len(taken) == 2 and None not in taken and node is not start:
            for place, (skipping, other) in enumerate((tuple(taken), tuple(reversed(taken)))):
                if skipping is not other and leading_to(other, skipping) and leading_to(skipping, start):
                    found.append((node, place))
    return found


class Cut:
    """Within it no gradient flows along the skipping inputs of additions; see `skips`."""

    def __init__(self, places: list[tuple[Node, int]]) -> None:
        self.places = places

    def __enter__(self) -> None:
        self.handles = [node.register_hook(without(place)) for node, place in self.places]

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


def without(place: int) -> Callable:
    """A hook of a node that leaves out the gradient of one of its inputs."""

    def leave_out(gradients: tuple[Tensor | None, ...], _: tuple) -> tuple[Tensor | None, ...]:
        return tuple(
            None if gradient is None else gradient * 0 if number == place else gradient
            for number, gradient in enumerate(gradients)
        )

    return leave_out
