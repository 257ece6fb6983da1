"""Words and when they are said: as a label for each frame, as words with a start and an end, and how well both agree.

Shapes: … any batch, W words, F frames.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROUNDING_S = 1e-9  # 1.05 - 1 is more than 0.05 in floating point, and is meant to be within it


@dataclass(frozen=True)
class TimedWord:
    """A word and when it is said.

    Args:
        label: Index of the word.
        start_s: Where it begins.
        end_s: Where it ends.
    """

    label: int
    start_s: float
    end_s: float


def frame_labels(
    spans_s: Tensor, labels: Tensor, *, silence: int, frames: int, first_s: float, frame_s: float
) -> Tensor:
    """The label of each frame: that of the word in whose span the frame's center is, else `silence`.

    Frame f lasts from `first_s` + f · `frame_s` to where f + 1 begins. A span holds its start but not its end; where
    spans overlap, the later in the list has the frame.

    Args:
        spans_s: Start and end of each word, in seconds.
        labels: Indices of the words, -1 where there is none.
        silence: Label of frames in which no word is said.
        frames: How many frames F.
        first_s: Where frame 0 begins.
        frame_s: From one frame to the next.

    Shape:
        (…, W, 2), (…, W) -> (…, F)

    Raises:
        ValueError: If there is not one span for each label.
    """
    if spans_s.shape != (*labels.shape, 2):
        raise ValueError(f"spans of shape {tuple(spans_s.shape)} are not one for each of labels {tuple(labels.shape)}")
    centers_s = first_s + (torch.arange(frames, device=labels.device) + 0.5) * frame_s
    starts_s, ends_s = spans_s.unsqueeze(-3).unbind(-1)
    inside = (starts_s <= centers_s[:, None]) & (centers_s[:, None] < ends_s) & (labels >= 0).unsqueeze(-2)
    # Silence is word 0, in every frame, and any word that is there comes later.
    places = torch.arange(1, labels.shape[-1] + 1, device=labels.device)
    last = torch.nn.functional.pad(inside * places, (1, 0)).amax(-1)
    return torch.nn.functional.pad(labels, (1, 0), value=silence).gather(-1, last)


def words_of(
    labels: Tensor, *, silence: int, first_s: float, frame_s: float, shortest_s: float = 0.05
) -> list[TimedWord]:
    """The words of labeled frames, in order: each run of one label that is not `silence`.

    A run shorter than `shortest_s` is dropped: no word is, and a label that flickers would be many. Nothing is joined,
    so that a word with another label in its midst is two.

    Args:
        labels: One of each frame.
        silence: Label of frames in which no word is said.
        first_s: Where frame 0 begins.
        frame_s: From one frame to the next.
        shortest_s: Length from which on a run is a word; 0 keeps every run.

    Shape:
        (F,) -> at most F words
    """
    runs, counts = torch.unique_consecutive(labels, return_counts=True)
    ends = counts.cumsum(0).tolist()
    words = []
    for label, count, end in zip(runs.tolist(), counts.tolist(), ends, strict=True):
        if label != silence and count * frame_s >= shortest_s - ROUNDING_S:
            words.append(TimedWord(label, first_s + (end - count) * frame_s, first_s + end * frame_s))
    return words


def matched(
    reference: Sequence[TimedWord], found: Sequence[TimedWord], tolerance_s: float = 0.05, *, onset_only: bool = False
) -> int:
    """How many words found are words of the reference: the same label, start and end each within the tolerance.

    In order of time each word of the reference takes the first found one that fits and that no other has taken. Where
    words of one list do not overlap, no other choice gives more.

    Args:
        reference: What was said.
        found: What was recognized.
        tolerance_s: How far a start or an end may be off.
        onset_only: Whether starts alone have to be within the tolerance.
    """
    free = sorted(found, key=time_of)
    count = 0
    for word in sorted(reference, key=time_of):
        fitting = (other for other in free if fits(word, other, tolerance_s, onset_only))
        taken = next(fitting, None)
        if taken is not None:
            free.remove(taken)
            count += 1
    return count


def time_of(word: TimedWord) -> tuple[float, float]:
    """What words are in order of."""
    return word.start_s, word.end_s


def fits(word: TimedWord, other: TimedWord, tolerance_s: float, onset_only: bool) -> bool:
    """Whether two words are one, said at one time."""
    off_s = abs(word.start_s - other.start_s)
    if not onset_only:
        off_s = max(off_s, abs(word.end_s - other.end_s))
    return word.label == other.label and off_s <= tolerance_s + ROUNDING_S


def word_f1(
    references: Sequence[Sequence[TimedWord]], found: Sequence[Sequence[TimedWord]], tolerance_s: float = 0.05
) -> dict[str, float]:
    """Precision, recall and F1 of words with their times, over all utterances together.

    `precision` is the share of the words found that are `matched`, `recall` that of the reference's, `f1` the harmonic
    mean of both; `onset_precision`, `onset_recall` and `onset_f1` ask for the label and the start alone. Where there
    are no words to take a share of, it is 1 if there are none on the other side either, else 0.

    Raises:
        ValueError: If there are not as many utterances found as in the reference.
    """
    if len(references) != len(found):
        raise ValueError(f"{len(found)} utterances found are not one for each of {len(references)} references")
    said, heard = sum(map(len, references)), sum(map(len, found))
    scores = {}
    for name, onset_only in (("", False), ("onset_", True)):
        pairs = zip(references, found, strict=True)
        count = sum(matched(*pair, tolerance_s, onset_only=onset_only) for pair in pairs)
        nothing = float(said == heard == 0)
        scores[name + "precision"] = count / heard if heard else nothing
        scores[name + "recall"] = count / said if said else nothing
        scores[name + "f1"] = 2 * count / (said + heard) if said + heard else nothing
    return scores
