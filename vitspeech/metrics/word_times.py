"""Words with their times: conversion to frame labels, and their precision and recall.

Shapes: … any batch, W words, F frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROUNDING_S = 1e-9  # in floating point 1.05 - 1 exceeds 0.05, but counts as within a tolerance of 0.05


@dataclass(frozen=True)
class TimedWord:
    """A word with its times.

    Args:
        label: Index of the word.
        start_s: Start in seconds.
        end_s: End in seconds.
    """

    label: int
    start_s: float
    end_s: float


def frame_labels(
    spans_s: Tensor, labels: Tensor, *, silence: int, frames: int, first_s: float, frame_s: float
) -> Tensor:
    """Convert words to frame labels: each frame gets the label of the word that contains its center, else `silence`.

    Frame f begins at `first_s` + f · `frame_s`. A span includes its start but not its end; where spans overlap, the
    last in the list counts.

    Args:
        spans_s: Start and end of each word, in seconds.
        labels: Indices of the words; -1 is padding.
        silence: Label of frames outside all words.
        frames: Number of frames F.
        first_s: Start of frame 0, in seconds.
        frame_s: Length of a frame, in seconds.

    Shape:
        (…, W, 2), (…, W) -> (…, F)
    """
    centers_s = first_s + (torch.arange(frames, device=labels.device) + 0.5) * frame_s
    starts_s, ends_s = spans_s.unsqueeze(-3).unbind(-1)
    inside = (starts_s <= centers_s[:, None]) & (centers_s[:, None] < ends_s) & (labels >= 0).unsqueeze(-2)
    # Silence is word 0 and contains every frame; the other words come later in the list and override it.
    numbers = torch.arange(1, labels.shape[-1] + 1, device=labels.device)
    last = torch.nn.functional.pad(inside * numbers, (1, 0)).amax(-1)
    return torch.nn.functional.pad(labels, (1, 0), value=silence).gather(-1, last)


def matched(
    reference: Sequence[TimedWord], words: Sequence[TimedWord], tolerance_s: float = 0.05, *, onset_only: bool = False
) -> list[bool]:
    """Whether each word of the reference is recognized: with its label, and start and end within the tolerance.

    Each word of the reference, in order of time, is matched with the first remaining word that agrees with it. This
    gives the maximum number of matches if the words of each list do not overlap.

    Args:
        reference: The true words.
        words: The recognized words.
        tolerance_s: Maximum error of a start or an end, in seconds.
        onset_only: Whether to compare the starts only.
    """
    remaining = sorted(words, key=time_of)
    found = [False] * len(reference)
    for index in sorted(range(len(reference)), key=lambda index: time_of(reference[index])):
        match = next((word for word in remaining if agree(reference[index], word, tolerance_s, onset_only)), None)
        if match is not None:
            remaining.remove(match)
            found[index] = True
    return found


def time_of(word: TimedWord) -> tuple[float, float]:
    """The sort key of words in order of time."""
    return word.start_s, word.end_s


def agree(word: TimedWord, other: TimedWord, tolerance_s: float, onset_only: bool) -> bool:
    """Whether two words have the same label and times within the tolerance."""
    error_s = abs(word.start_s - other.start_s)
    if not onset_only:
        error_s = max(error_s, abs(word.end_s - other.end_s))
    return word.label == other.label and error_s <= tolerance_s + ROUNDING_S


def word_f1(
    references: Sequence[Sequence[TimedWord]], hypotheses: Sequence[Sequence[TimedWord]], tolerance_s: float = 0.05
) -> dict[str, float]:
    """Precision, recall and F1 of words with times, over all utterances together.

    A match requires the label, the start and the end (`matched`). `precision` is matches per recognized word,
    `recall` matches per reference word, `f1` their harmonic mean; `onset_precision`, `onset_recall` and `onset_f1`
    require the label and the start only. If a denominator is zero, the value is 1 if both sides have no words, else 0.
    """
    true, output = sum(map(len, references)), sum(map(len, hypotheses))
    scores = {}
    for name, onset_only in (("", False), ("onset_", True)):
        pairs = zip(references, hypotheses, strict=True)
        matches = sum(sum(matched(*pair, tolerance_s, onset_only=onset_only)) for pair in pairs)
        undefined = float(true == output == 0)
        scores[name + "precision"] = matches / output if output else undefined
        scores[name + "recall"] = matches / true if true else undefined
        scores[name + "f1"] = 2 * matches / (true + output) if true + output else undefined
    return scores
