"""Segments of frame labels, compared with all labelings of a few frames."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from vitspeech.decoding.segments import segment
from vitspeech.errors import InputError


def random_rows(frames, classes, seed=0, scale=2.0):
    return (scale * torch.randn(frames, classes, generator=torch.Generator().manual_seed(seed))).log_softmax(-1)


def score(log_probs, labels, change_nats):
    changes = sum(one != other for one, other in itertools.pairwise(labels))
    return sum(log_probs[frame, label].item() for frame, label in enumerate(labels)) - change_nats * changes


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("change_nats", [0.3, 1.0, 4.0])
def test_segments_are_the_best_of_all_labelings(seed, change_nats):
    log_probs = random_rows(6, 3, seed)
    best = max(itertools.product(range(3), repeat=6), key=lambda labels: score(log_probs, labels, change_nats))
    assert tuple(segment(log_probs, change_nats).tolist()) == best


def test_without_a_cost_each_frame_has_its_most_probable_label():
    log_probs = random_rows(200, 5)
    assert_close(segment(log_probs, 0.0), log_probs.argmax(-1))


def test_with_a_high_cost_there_is_one_label():
    log_probs = random_rows(200, 5)
    assert segment(log_probs, 1e6).unique().tolist() == [log_probs.sum(0).argmax().item()]


def test_a_flicker_of_one_frame_disappears_and_a_word_stays():
    probs = torch.full((30, 2), 0.1)
    probs[:, 1] = 0.9
    probs[10:20] = torch.tensor([0.9, 0.1])  # a word
    probs[14] = torch.tensor([0.4, 0.6])  # a flicker within it
    labels = segment(probs.log(), 2.0)
    assert labels.tolist() == [1] * 10 + [0] * 10 + [1] * 10


def test_no_frames_have_no_labels():
    assert segment(torch.zeros(0, 3), 1.0).shape == (0,)


def test_a_negative_cost_and_logits_are_refused():
    with pytest.raises(InputError, match="change_nats=-1"):
        segment(random_rows(3, 2), -1)
    with pytest.raises(ValueError, match="pass the log_softmax"):
        segment(torch.ones(3, 2), 1.0)
