"""The samples that a stream accepts, in the formats in which libraries deliver them.

Shapes: N samples.
"""

import numpy
import torch
from torch import Tensor

from vitspeech.errors import InputError

FULL_SCALE = 32768  # of int16
LOUDEST = 16.0  # 24 dB above full scale; floats beyond it are integers that were not scaled


def checked(samples: Tensor | numpy.ndarray) -> Tensor:
    """Check samples that are int16 or floats within ±1: (N,) -> a tensor of the same numbers (N,).

    Arrays may be read-only, strided and of either byte order. Floats up to ±16 are accepted, since resampling and lossy
    codecs overshoot.

    Raises:
        InputError: If the samples are neither int16 nor floats, not one-dimensional, not finite or beyond ±16.
    """
    if not isinstance(samples, Tensor):
        samples = as_tensor(numpy.asarray(samples))
    if samples.dtype != torch.int16 and not samples.is_floating_point():
        raise wrong_type(samples.dtype)
    if samples.ndim != 1:
        raise InputError(f"samples of shape {tuple(samples.shape)} are not one-dimensional, (N,)")
    if samples.is_floating_point():
        check_range(samples)
    return samples


def as_tensor(array: numpy.ndarray) -> Tensor:
    """An array of int16 or floats as a tensor, copied only if PyTorch can't share its memory."""
    native = array.dtype.newbyteorder("=")
    if native.kind == "f":
        native = min(native, numpy.dtype(numpy.float64), key=lambda dtype: dtype.itemsize)  # no longdouble in PyTorch
    elif native != numpy.int16:
        raise wrong_type(array.dtype)
    return torch.from_numpy(numpy.require(array, native, ["C", "W"]))


def check_range(samples: Tensor) -> None:
    """Raise an InputError unless floats (N,) are finite and within ±LOUDEST."""
    if not len(samples):
        return
    low, high = (extreme.item() for extreme in samples.aminmax())  # NaN if any sample is
    if low >= -LOUDEST and high <= LOUDEST:
        return
    if infinite := int((~samples.isfinite()).sum()):
        raise InputError(f"{infinite} of {len(samples)} samples are not finite")
    peak = max(-low, high)
    raise InputError(f"floats up to {peak:g} are not samples within ±1; divide by full scale, or pass int16")


def wrong_type(dtype: object) -> InputError:
    """The error for samples of another type."""
    name = str(dtype).removeprefix("torch.")
    return InputError(f"samples of type {name} are neither int16 nor floats within ±1; convert them first")
