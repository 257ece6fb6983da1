"""What our classifiers have in common with timm's: a head that can be replaced, and the outputs of every block.

Shapes: B batch, W features before the head.
"""

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor, nn

from vitspeech.errors import InputError


class Classifier(nn.Module):
    """The base class of classifiers; its methods are those of timm's networks.

    A subclass has a `head` and `num_features`, and implements `stages`.

    Attributes:
        head: A linear layer, or the identity without classes.
        num_features: Width W of the features that the head takes.
    """

    head: nn.Module
    num_features: int

    @property
    def num_classes(self) -> int:
        """The number of outputs of the head; 0 if it is no linear layer."""
        return self.head.out_features if isinstance(self.head, nn.Linear) else 0

    def get_classifier(self) -> nn.Module:
        """The head: (B, W) -> (B, classes)."""
        return self.head

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the head by an untrained one; 0 classes remove it, and `forward` then returns features (B, W)."""
        parameter = next(self.parameters())
        options = {"device": parameter.device, "dtype": parameter.dtype}
        self.head = nn.Linear(self.num_features, num_classes, **options) if num_classes else nn.Identity()
        self.head.train(self.training)

    def stages(self, inputs: Tensor) -> tuple[Tensor, Sequence[nn.Module], Callable[[Tensor], Tensor]]:
        """The input of the first block, the blocks, and what follows the last one, which gives `forward_features`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement stages")

    def forward_intermediates(
        self,
        inputs: Tensor,
        indices: int | Iterable[int] | None = None,
        *,
        norm: bool = False,
        stop_early: bool = False,
        intermediates_only: bool = False,
    ) -> tuple[Tensor, list[Tensor]] | list[Tensor]:
        """The features, and the outputs of blocks on the way.

        Args:
            inputs: As in `forward`.
            indices: Numbers of blocks from 0, negative ones from the end; a number n means the last n blocks, and
                `None` all.
            norm: Whether the last norm is applied to each output, too.
            stop_early: Whether to stop after the last of these blocks; the features are then those of that block.
            intermediates_only: Return the list alone.

        Shape:
            -> `forward_features(inputs)`, and an output of its shape for each block; those of a CNN differ in shape
        """
        x, blocks, finish = self.stages(inputs)
        wanted, found = chosen(indices, len(blocks)), []
        for number, block in enumerate(blocks):
            if stop_early and number > max(wanted):
                break
            x = block(x)
            if number in wanted:
                found.append(finish(x) if norm else x)
        return found if intermediates_only else (finish(x), found)


def encoder_stages(
    encoder: nn.Module, tokens: Tensor
) -> tuple[Tensor, Sequence[nn.Module], Callable[[Tensor], Tensor]]:
    """`Classifier.stages` of an encoder: attention, recurrence or windows. tokens (B, T, D)."""
    if not hasattr(encoder, "blocks"):
        raise InputError(f"{type(encoder).__name__} has no blocks, whose outputs could be given")
    tokens = encoder.add_positions(tokens) if hasattr(encoder, "add_positions") else tokens
    return tokens, encoder.blocks, encoder.norm if hasattr(encoder, "norm") else encoder.output


def chosen(indices: int | Iterable[int] | None, count: int) -> set[int]:
    """The numbers of the blocks that `indices` of `forward_intermediates` mean, of so many blocks."""
    numbers = range(count) if indices is None else range(-indices, 0) if isinstance(indices, int) else [*indices]
    if not numbers or not all(-count <= number < count for number in numbers):
        raise InputError(f"indices={indices!r}: there are blocks 0 to {count - 1}")
    return {number % count for number in numbers}
