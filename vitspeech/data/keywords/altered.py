"""Sounds that are not keywords: halves of two keywords joined, a keyword cut in half, a piece of continuous speech.

A network that has only heard whole words recognizes them by parts: "ha" is "happy", and "bed" plus "cat" is one of
both.

Shapes: N samples of a clip.
"""

import numpy

FADE = 160  # samples, 10 ms at 16 kHz, at each cut


def join_halves(first: numpy.ndarray, second: numpy.ndarray) -> numpy.ndarray:
    """The first half of one word followed by the second half of another: int16 (N,), (N,) -> (N,)."""
    joined = numpy.zeros_like(first)
    middle = len(joined) // 2
    beginning, ending = faded(first[: center(first)], end=True), faded(second[center(second) :], start=True)
    beginning, ending = beginning[-middle:], ending[: len(joined) - middle]
    joined[middle - len(beginning) : middle] = beginning
    joined[middle : middle + len(ending)] = ending
    return joined


def half(clip: numpy.ndarray, keep_first: bool) -> numpy.ndarray:
    """One half of a word at the edge of the clip, as in a window that the word enters or leaves: int16 (N,) -> (N,)."""
    part = clip[: center(clip)] if keep_first else clip[center(clip) :]
    cut = numpy.zeros_like(clip)
    if keep_first:
        cut[len(cut) - len(part) :] = part
    else:
        cut[: len(part)] = part
    return cut


def word_sized(speech: numpy.ndarray, generator: numpy.random.Generator) -> numpy.ndarray:
    """A piece of speech as long as a word, cut where it is quietest, in the middle of a clip: int16 (N,) -> (N,).

    It begins in the first quarter of the speech and lasts a fifth to three quarters of it.
    """
    frames = len(speech) // FADE
    energy = numpy.square(speech[: frames * FADE].reshape(frames, FADE), dtype=numpy.int64).sum(1)
    begin = int(energy[: frames // 4].argmin())
    longest = begin + int(generator.integers(frames // 4, 3 * frames // 4 + 1))
    shortest = begin + frames // 5
    end = shortest + int(energy[shortest : max(longest, shortest + 1)].argmin())
    piece = faded(speech[begin * FADE : end * FADE], start=True, end=True)
    clip = numpy.zeros_like(speech)
    first = (len(clip) - len(piece)) // 2
    clip[first : first + len(piece)] = piece
    return clip


def center(clip: numpy.ndarray) -> int:
    """The sample before and after which a clip has equal energy: the middle of the word."""
    energy = numpy.square(clip, dtype=numpy.int64).cumsum()
    return int(numpy.searchsorted(energy, energy[-1] / 2)) if energy[-1] else len(clip) // 2


def faded(part: numpy.ndarray, *, start: bool = False, end: bool = False) -> numpy.ndarray:
    """Fade a part of a clip in at its start or out at its end, where it was cut."""
    part, length = part.astype(numpy.float32), min(FADE, len(part))
    ramp = numpy.linspace(0, 1, length, dtype=numpy.float32)
    if start:
        part[:length] *= ramp
    if end and length:
        part[-length:] *= ramp[::-1]
    return part.round().astype(numpy.int16)
